"""A call that was refused before its class was known has none. Rows of before keep theirs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        migrations.AlterField(
            model_name="ledgercall", name="klass", field=models.SmallIntegerField(null=True)
        ),
    ]
