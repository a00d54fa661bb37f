from django.db import migrations, models

from gateway import triggers


def reinstall_triggers(apps, schema_editor):
    """SQLite rebuilds a table that gets a column, without its triggers."""
    if schema_editor.connection.vendor == "sqlite":
        with schema_editor.connection.cursor() as cursor:
            for table in triggers.TABLES:
                cursor.execute(f"DROP TRIGGER IF EXISTS {table}_slug_fixed")
        triggers.install(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("gateway", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="CallExplanation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("call_id", models.CharField(max_length=64, unique=True)),
                ("at", models.DateTimeField(db_index=True)),
                ("told", models.JSONField()),
            ],
        ),
        migrations.AddField("alias", "others", models.JSONField(default=list)),
        migrations.AddField("alias", "weight", models.PositiveIntegerField(default=1)),
        migrations.AddField("pool", "template_order", models.CharField(blank=True, max_length=20)),
        migrations.AddField("replica", "band_from_tokens", models.PositiveIntegerField(default=0)),
        migrations.AddField("replica", "band_to_tokens", models.PositiveIntegerField(default=0)),
        migrations.AddField("replica", "region", models.CharField(blank=True, max_length=40)),
        migrations.AddField("replica", "tenants", models.JSONField(default=list)),
        migrations.RunPython(reinstall_triggers, migrations.RunPython.noop),
    ]
