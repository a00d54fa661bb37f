"""How do running gateways hear of a change before they look? One message through Redis, if there
is one.

It carries nothing: whoever hears it reads the version. A lost message costs half a second, so
nothing here may fail or delay the write that it follows.
"""

from __future__ import annotations

import redis
import structlog
from django.conf import settings

CHANNEL = "fairway:config"
TIMEOUT_S = 0.2
log = structlog.get_logger(__name__)


def announce() -> None:
    """Call after the commit."""
    url = settings.FAIRWAY_TENANTS.redis_url
    if not url:
        return
    try:
        with redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=None
        ) as client:
            client.publish(CHANNEL, b"")
    except redis.RedisError as error:
        log.warning("config_not_announced", error=type(error).__name__)
