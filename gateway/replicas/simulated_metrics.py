"""The metrics of a simulated replica, under vLLM's names, read from the engine when scraped."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway.simulation.engine import Engine

_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class SimulatedMetrics:
    def __init__(self, engine: Engine, model: str) -> None:
        self._labels = {"model_name": model, "engine": "0"}
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(engine, self._labels))
        self._ttft_s = self._histogram("vllm:time_to_first_token_seconds")
        self._e2e_s = self._histogram("vllm:e2e_request_latency_seconds")

    def ended(self, ttft_s: float, e2e_s: float) -> None:
        self._ttft_s.observe(ttft_s)
        self._e2e_s.observe(e2e_s)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def _histogram(self, name: str) -> Histogram:
        histogram = Histogram(
            name, name, list(self._labels), buckets=_BUCKETS_S, registry=self._registry
        )
        return histogram.labels(**self._labels)


class _EngineCollector(Collector):
    def __init__(self, engine: Engine, labels: dict[str, str]) -> None:
        self._engine = engine
        self._labels = labels

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        engine, counters = self._engine, self._engine.counters
        names = list(self._labels)
        values = list(self._labels.values())
        for name, value in {
            "vllm:num_requests_running": engine.running,
            "vllm:num_requests_waiting": engine.waiting,
            "vllm:kv_cache_usage_perc": engine.cache.used_ratio,
        }.items():
            gauge = GaugeMetricFamily(name, name, labels=names)
            gauge.add_metric(values, value)
            yield gauge
        for name, total in {
            "vllm:prompt_tokens": counters.prompt_tokens,
            "vllm:prompt_tokens_cached": counters.prefix_cache_hits,
            "vllm:generation_tokens": counters.generation_tokens,
            "vllm:prefix_cache_queries": counters.prefix_cache_queries,
            "vllm:prefix_cache_hits": counters.prefix_cache_hits,
            "vllm:num_preemptions": counters.preemptions,
            "vllm:request_success": counters.finished,
            "vllm:admission_rejections": counters.rejections,
        }.items():
            counter = CounterMetricFamily(name, name, labels=names)
            counter.add_metric(values, total)
            yield counter
        yield self._cache_info()

    def _cache_info(self) -> GaugeMetricFamily:
        labels = self._labels | {
            "block_size": str(self._engine.config.block_tokens),
            "num_gpu_blocks": str(self._engine.cache.total_blocks),
            "enable_prefix_caching": "True",
        }
        info = GaugeMetricFamily("vllm:cache_config_info", "cache", labels=list(labels))
        info.add_metric(list(labels.values()), 1)
        return info
