"""Prometheus: `Metrics` is a sink of the event bus and renders ``/metrics``."""

from gateway.metrics.recorder import CONTENT_TYPE, ConnectionFacts, Metrics

__all__ = ["CONTENT_TYPE", "ConnectionFacts", "Metrics"]
