"""Who looks at live figures: the operators, or the people of one tenant.

Made from the session alone, never from what a browser sends.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.live.facts import FleetFacts, own_facts


@dataclass(frozen=True, slots=True)
class Operators:
    """See the whole fleet."""

    def cut(self, fleet: FleetFacts) -> FleetFacts:
        return fleet


@dataclass(frozen=True, slots=True)
class MembersOf:
    """See their tenant and nothing of another."""

    tenant: str

    def cut(self, fleet: FleetFacts) -> FleetFacts:
        return own_facts(fleet, self.tenant)


Audience = Operators | MembersOf
OPERATORS = Operators()
