"""Which series does the gateway export? Every name, its help, labels and buckets in one place.

``gen_ai_*`` are OpenTelemetry's names for generative AI as the Prometheus exporter renders them,
with its buckets (time to first token also has 20, 40 and 80 s, for queues); ``fairway_*`` are
our own. ``gen_ai_client_*`` describe attempts: there the gateway is the client of a replica.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Enum, Gauge, Histogram

from gateway.metrics.tallies import Spreads, Tallies

_SECONDS = (
    (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
)  # fmt: skip
_TTFT = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
_TPOT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_TOKENS = tuple(4.0**power for power in range(14))
_LAG = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)

OPERATION = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
FAILED_OPERATION = (*OPERATION, "error_type")
REPLICA_STATES = (
    "serving", "starting", "half_open", "down", "ejected", "draining", "disabled", "unknown",
)  # fmt: skip


class Families:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._add_served(registry)
        self._add_attempts(registry)
        self._add_calls(registry)
        self._add_pools(registry)
        self._add_process(registry)

    def _add_served(self, registry: CollectorRegistry) -> None:
        self.request_duration = Spreads(
            "gen_ai_server_request_duration_seconds",
            "Calls that were dispatched, from arrival to end.",
            FAILED_OPERATION,
            _SECONDS,
            registry,
        )
        self.ttft = Spreads(
            "gen_ai_server_time_to_first_token_seconds",
            "Completed calls, from arrival to the first token.",
            OPERATION,
            _TTFT,
            registry,
        )
        self.tpot = Spreads(
            "gen_ai_server_time_per_output_token_seconds",
            "Completed calls of two tokens or more, per token after the first.",
            OPERATION,
            _TPOT,
            registry,
        )
        self.token_usage = Spreads(
            "gen_ai_client_token_usage",
            "Tokens of a completed call.",
            (*OPERATION, "gen_ai_token_type"),
            _TOKENS,
            registry,
        )

    def _add_attempts(self, registry: CollectorRegistry) -> None:
        self.attempt_duration = Spreads(
            "gen_ai_client_operation_duration_seconds",
            "Attempts at a replica, from dispatch to end.",
            FAILED_OPERATION,
            _SECONDS,
            registry,
        )
        self.attempt_first_chunk = Spreads(
            "gen_ai_client_operation_time_to_first_chunk_seconds",
            "Attempts at a replica, from dispatch to its first event.",
            OPERATION,
            _SECONDS,
            registry,
        )

    def _add_calls(self, registry: CollectorRegistry) -> None:
        self.calls = Tallies(
            "fairway_calls",
            "Calls that ended; reason is empty for completed ones.",
            ("tenant", "class", "pool", "outcome", "reason"),
            registry,
        )
        self.shed = Tallies(
            "fairway_shed",
            "Calls refused or evicted because of load.",
            ("pool", "class", "reason"),
            registry,
        )
        self.queue_seconds = Spreads(
            "fairway_queue_seconds",
            "Time in the queue of calls that entered it.",
            ("pool", "class", "outcome"),
            (0.0, *_SECONDS),
            registry,
        )
        self.tokens = Tallies(
            "fairway_tokens",
            "Tokens counted for a tenant; cached ones are also input.",
            ("tenant", "pool", "kind"),
            registry,
        )
        self.admission_tokens = Tallies(
            "fairway_admission_tokens",
            "Tokens of dispatched calls, as reserved (estimated) and as settled (actual).",
            ("pool", "kind"),
            registry,
        )
        self.charges = Tallies(
            "fairway_charges_microcredits", "Charged to tenants.", ("tenant",), registry
        )
        self.retries = Tallies(
            "fairway_retries", "Attempts after the first of a call.", ("pool",), registry
        )
        self.wasted_tokens = Tallies(
            "fairway_wasted_tokens",
            "Tokens received in attempts whose output nobody got.",
            ("pool",),
            registry,
        )

    def _add_pools(self, registry: CollectorRegistry) -> None:
        of_class = ("pool", "class")
        of_replica = ("pool", "replica")
        self.queue_depth = Gauge(
            "fairway_queue_depth", "Queued calls.", of_class, registry=registry
        )
        self.queue_tokens = Gauge(
            "fairway_queue_tokens", "Estimated prompt tokens queued.", of_class, registry=registry
        )
        self.in_flight = Gauge(
            "fairway_in_flight", "Calls on a replica now.", of_replica, registry=registry
        )
        self.slots = Gauge(
            "fairway_slots", "Calls a replica may have now.", of_replica, registry=registry
        )
        self.replica_state = Enum(
            "fairway_replica_state",
            "1 for the state that the replica is in.",
            of_replica,
            states=list(REPLICA_STATES),
            registry=registry,
        )

    def _add_process(self, registry: CollectorRegistry) -> None:
        self.events_dropped = Counter(
            "fairway_events_dropped", "Events lost to a full sink.", ("sink",), registry=registry
        )
        self.loop_lag = Histogram(
            "fairway_loop_lag_seconds",
            "How late the event loop ran a timer.",
            buckets=_LAG,
            registry=registry,
        )
        self.loop_blocked = Counter(
            "fairway_loop_blocked_seconds",
            "Time for which the event loop stood still, of times longer than 0.25 s.",
            registry=registry,
        )
        self.degraded = Gauge(
            "fairway_degraded", "1 while the part is degraded.", ("part",), registry=registry
        )
        self.config_version = Gauge(
            "fairway_config_version", "Version of the configuration in force.", registry=registry
        )
