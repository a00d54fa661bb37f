"""Writes of pools, aliases, replicas and policy parameters; reads are in ``gateway.selectors``."""
