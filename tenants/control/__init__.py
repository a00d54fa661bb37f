"""The control API of tenants: each operation parses, asks ``permissions``, calls a service."""
