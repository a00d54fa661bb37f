from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "config"
    label = "config"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Every process that queues a task knows the broker."""
        import config.celery  # noqa: F401
