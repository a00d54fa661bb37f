"""An attempt keeps what its replica said of an error. Code of before may go on inserting rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_unclassified_calls")]

    operations = [
        migrations.AddField(
            model_name="ledgerattempt",
            name="said",
            field=models.CharField(blank=True, db_default="", default="", max_length=300),
        ),
    ]
