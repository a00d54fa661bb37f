"""The tenant and quota database. Services write it, selectors read it."""

from tenants.models.audit import AuditEntry, ConfigVersion
from tenants.models.credit import CreditAccount, CreditGrant, GrantKind
from tenants.models.keys import ApiKey, Scope
from tenants.models.ledger import LedgerAttempt, LedgerCall
from tenants.models.limits import KeyLimit, OrganizationLimit, PlanLimit
from tenants.models.members import Member, Operator, Role
from tenants.models.organizations import Organization
from tenants.models.plans import OverLimit, Plan

__all__ = [
    "ApiKey",
    "AuditEntry",
    "ConfigVersion",
    "CreditAccount",
    "CreditGrant",
    "GrantKind",
    "KeyLimit",
    "LedgerAttempt",
    "LedgerCall",
    "Member",
    "Operator",
    "Organization",
    "OrganizationLimit",
    "OverLimit",
    "Plan",
    "PlanLimit",
    "Role",
    "Scope",
]
