"""Prometheus: `Metrics` is a sink of the event bus and renders ``/metrics``."""

from gateway.metrics.recorder import CONTENT_TYPE, Metrics

__all__ = ["CONTENT_TYPE", "Metrics"]
