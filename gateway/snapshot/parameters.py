"""Which numbers of the policies can an operator change at run time, within which bounds?

The defaults are those of ``PoolConfig``; a row replaces one for a pool or, with pool ``*``, for
all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gateway.core.dispatch.effects import PoolConfig
from gateway.snapshot.values import Snapshot


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    unit: str
    default: float
    least: float
    most: float
    meaning: str


def with_parameters(config: PoolConfig, pool: str, snapshot: Snapshot) -> PoolConfig:
    """``config`` with what an operator set for ``pool``."""

    def chosen(name: str, otherwise: float) -> float:
        value = snapshot.parameter(name, pool)
        return otherwise if value is None else value

    first, second, third = map(chosen, _WAIT_LIMITS, config.wait_limit_s)
    return replace(
        config,
        queue_calls_per_tenant=int(chosen("queue_calls_per_tenant", config.queue_calls_per_tenant)),
        queue_bytes_per_tenant=int(chosen("queue_bytes_per_tenant", config.queue_bytes_per_tenant)),
        queue_calls_per_class=int(chosen("queue_calls_per_class", config.queue_calls_per_class)),
        queue_bytes_per_class=int(chosen("queue_bytes_per_class", config.queue_bytes_per_class)),
        wait_limit_s=(first, second, third),
    )


_DEFAULTS = PoolConfig(replicas=(), weights={})
_WAIT_LIMITS = ("wait_limit_interactive_s", "wait_limit_standard_s", "wait_limit_batch_s")
_WAITS = dict(zip(_WAIT_LIMITS, _DEFAULTS.wait_limit_s, strict=True))

PARAMETERS: dict[str, Parameter] = {
    parameter.name: parameter
    for parameter in (
        Parameter(
            "queue_calls_per_tenant",
            "calls",
            _DEFAULTS.queue_calls_per_tenant,
            1,
            100_000,
            "Calls of one tenant that may wait in the pool.",
        ),
        Parameter(
            "queue_bytes_per_tenant",
            "bytes",
            _DEFAULTS.queue_bytes_per_tenant,
            1_048_576,
            2**40,
            "Prompt bytes of one tenant that may wait in the pool.",
        ),
        Parameter(
            "queue_calls_per_class",
            "calls",
            _DEFAULTS.queue_calls_per_class,
            1,
            1_000_000,
            "Calls of one class that may wait in the pool.",
        ),
        Parameter(
            "queue_bytes_per_class",
            "bytes",
            _DEFAULTS.queue_bytes_per_class,
            1_048_576,
            2**40,
            "Prompt bytes of one class that may wait in the pool.",
        ),
        *(
            Parameter(
                name, "s", default, 0.1, 86_400.0, "How long a call of the class may wait at most."
            )
            for name, default in _WAITS.items()
        ),
    )
}
