"""Django's settings. Values that differ between installations come from ``config.env`` alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from csp.constants import NONCE, SELF

from config.database import database
from config.env import read_env
from config.logs import logging_config

ENV = read_env()
FAIRWAY_TENANTS = ENV.tenants
FAIRWAY_GATEWAY = ENV.gateway
FAIRWAY_DASHBOARD = ENV.dashboard
FAIRWAY_WORKERS = ENV.workers

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = ENV.shared.var_dir.absolute()
SECRETS_ARE_PUBLIC = ENV.shared.debug
DEBUG = False  # FAIRWAY_DEBUG allows default secrets; tracebacks are never shown to a browser
SECRET_KEY = ENV.gateway.secret_key.decode()
ALLOWED_HOSTS = list(ENV.shared.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(ENV.shared.csrf_trusted_origins)
REDIS_URL = ENV.shared.redis_url
PORT = ENV.shared.port

INSTALLED_APPS = [
    "config",
    "tenants",
    "gateway",
    "dashboard",
    "workers",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_htmx",
    "ninja",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "django_celery_beat",
]
MIDDLEWARE = [
    "config.middleware.api_problems",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.middleware.permissions_policy",
    "config.nul.refuse_nul",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "config.middleware.DatabaseAway",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
            ],
            "builtins": ["dashboard.templatetags.carried"],
        },
    }
]
DATABASES = {
    "default": database(ENV.shared.database_url, var_dir=VAR_DIR, pool=ENV.shared.database_pool)
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

# Cache, sockets: in Redis when there is one, else in this process.
CACHES: dict[str, Any] = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "fairway",
        "OPTIONS": {
            "serializer": "config.serializers.JsonSerializer",
            "socket_timeout": 0.5,
            "socket_connect_timeout": 0.5,
        },
    }
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
}
CHANNEL_LAYERS: dict[str, Any] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "fairway"},
    }
    if REDIS_URL
    else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
}

# Static files: collected and hashed (make run), else straight from the apps.
STATIC_URL = "static/"
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "dashboard.finders.PlotlyFinder",
]
STATIC_ROOT = VAR_DIR / "static"
WHITENOISE_USE_FINDERS = not (STATIC_ROOT / "staticfiles.json").exists()
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
STORAGES = {
    "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(VAR_DIR / "files")},
    },
    "staticfiles": {"BACKEND": "config.staticfiles.CollectedStorage"},
}

# Sign-in: name and password, rate limited, a second factor if wanted; sessions in the database.
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
ACCOUNT_ADAPTER = "config.accounts.ClosedSignup"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_RATE_LIMITS = {"login": "30/m/ip", "login_failed": "10/m/ip,5/5m/key"}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/accounts/login/"
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = int(timedelta(days=7).total_seconds())
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV.shared.https
SESSION_COOKIE_SAMESITE = "Lax"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

# Headers of pages.
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds()) if ENV.shared.https else 0
SECURE_SSL_REDIRECT = ENV.shared.https
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ENV.shared.https else None
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],  # plotly.js exports a picture
        "connect-src": [SELF],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": [SELF],
        "frame-ancestors": ["'none'"],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_621_440  # bytes; config.asgi refuses more before Django sees it

# django-ninja: strict bodies are the schemas' business; documentation works without a CDN.
NINJA_PAGINATION_PER_PAGE = 100

LOGGING_CONFIG = "config.logs.configure"
LOGGING = logging_config(ENV.shared.log_level)
SILENCED_SYSTEM_CHECKS = [
    "security.W005",
    "security.W021",
]  # other hosts of the domain are not ours
