"""Which numbers of the policies can an operator change at run time, within which bounds?

The defaults are those of ``PoolConfig``; a row replaces one for a pool or, with pool ``*``, for
all. A value per class is one parameter per class, ``wait_limit_batch_s`` for the third value of
``wait_limit_s``. What each number does is told in the module that is named with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.core.dispatch.effects import PoolConfig
from gateway.core.priority import PriorityClass
from gateway.snapshot.parameter_table import TABLE, Parameter
from gateway.snapshot.values import Snapshot

__all__ = ["NOT_PARAMETERS", "PARAMETERS", "Parameter", "with_parameters"]


def with_parameters(config: PoolConfig, pool: str, snapshot: Snapshot) -> PoolConfig:
    """``config`` with what an operator set for ``pool``."""
    changes: dict[str, Any] = {}
    for parameter in PARAMETERS.values():
        value = snapshot.parameter(parameter.name, pool)
        if value is None:
            continue
        former = changes.get(parameter.field, getattr(config, parameter.field))
        changes[parameter.field] = _changed(former, value, parameter.klass)
    return replace(config, **changes) if changes else config


def _changed(former: Any, value: float, klass: PriorityClass | None) -> Any:
    if klass is not None:
        return tuple(value if one is klass else former[one] for one in PriorityClass)
    if isinstance(former, bool):
        return value != 0
    return int(value) if isinstance(former, int) else value


PARAMETERS = {one.name: one for row in TABLE for one in row.parameters()}

NOT_PARAMETERS = frozenset({"replicas", "weights", "routing", "queue", "tpot_objective_s"})
"""Fields that an operator changes elsewhere: of the pool, its replicas and its tenants."""
