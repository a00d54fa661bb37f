"""How large will this call be? Tokens of prompt and answer, O(1) once the body is parsed.

No tokenizer runs here: input is prompt bytes divided by what this tenant's prompts have yielded on
this pool, output what its answers have been. Both are learned from what replicas report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.core.estimates import TokenEstimator
from gateway.core.limits.plan import CallSize
from gateway.core.reasons import Outcome
from gateway.wire.dialect import ParsedBody

if TYPE_CHECKING:
    from gateway.pipeline.call import Call


@dataclass(frozen=True, slots=True)
class Count:
    """``size`` is what quota reserves on; ``expected_output`` (a mean, not a percentile) is what
    the fair queue charges at dispatch."""

    size: CallSize
    expected_output: int

    @property
    def reserved_tokens(self) -> int:
        return self.size.input_tokens + self.size.expected_output


class Counter:
    def __init__(self, estimator: TokenEstimator) -> None:
        self._estimator = estimator

    def count(self, pool: str, tenant: str, body: ParsedBody) -> Count:
        output = self._estimator.output_tokens(pool, tenant)
        cap = body.max_output_tokens
        size = CallSize(
            input_tokens=self._estimator.input_tokens(
                pool, tenant, prompt_bytes=body.prompt_bytes, script=body.script
            ),
            output_tokens=round(output.p90) * body.n,
            prompt_bytes=body.prompt_bytes,
            output_cap_tokens=None if cap is None else cap * body.n,
            choices=body.n,
        )
        mean = max(1, round(output.mean))
        return Count(size, (mean if cap is None else min(mean, cap)) * body.n)

    def learn(self, call: Call) -> None:
        """From a call that ended by itself with reported usage; a cut one says little."""
        if call.order is None or call.usage is None or call.outcome is not Outcome.COMPLETED:
            return
        order = call.order
        pool, tenant = order.route.pool.slug, order.principal.tenant.slug
        if not order.body.has_media:
            self._estimator.learn_input(
                pool,
                tenant,
                prompt_bytes=order.body.prompt_bytes,
                input_tokens=call.usage.input_tokens,
            )
        if order.body.generates:
            output_tokens = call.usage.output_tokens // order.body.n
            self._estimator.learn_output(pool, tenant, output_tokens=output_tokens)
