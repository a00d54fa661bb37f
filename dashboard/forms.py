"""What browsers may send. Forms check form; services check rules and say what is wrong in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.utils import timezone

from dashboard.changes import PolicyWish
from gateway.core.priority import PriorityClass
from tenants.bounds import WEIGHT_MAX, WEIGHT_MIN
from tenants.errors import TenancyError
from tenants.key_terms import KeyTerms
from tenants.models.keys import Scope
from tenants.wording import NAME_CHARACTERS, TEXT_CHARACTERS

CLASSES = [(klass.label, klass.label) for klass in PriorityClass]
SCOPES = {
    Scope.INFERENCE: "inference: calls to models",
    Scope.BATCH: "batch: files and batches",
    Scope.USAGE: "usage: read usage and limits",
    Scope.MANAGE: "manage: keys and settings of this organization",
}
EXPIRIES = {
    "": "never",
    "7": "in 7 days",
    "30": "in 30 days",
    "90": "in 90 days",
    "365": "in a year",
}

WEIGHT_WORDS = f"Give a weight from {WEIGHT_MIN:g} to {WEIGHT_MAX:,.0f}."
ZERO_WORDS = "With 0 a tenant would never be served while another waits: suspend it instead."


class PolicyForm(forms.Form):
    weight = forms.FloatField(
        min_value=WEIGHT_MIN,
        max_value=WEIGHT_MAX,
        error_messages={"min_value": f"{WEIGHT_WORDS} {ZERO_WORDS}", "max_value": WEIGHT_WORDS},
    )
    highest_class = forms.ChoiceField(choices=CLASSES)
    why = forms.CharField(max_length=TEXT_CHARACTERS)
    version = forms.IntegerField(min_value=1)

    def wish(self) -> PolicyWish:
        data = self.cleaned_data
        return PolicyWish(
            weight=data["weight"],
            highest_class=PriorityClass.parse(data["highest_class"]),
            why=data["why"],
            seen_version=data["version"],
        )


class KeyForm(forms.Form):
    label = forms.CharField(max_length=NAME_CHARACTERS)
    scopes = forms.MultipleChoiceField(choices=list(SCOPES.items()))
    highest_class = forms.ChoiceField(choices=CLASSES)
    expires = forms.ChoiceField(choices=list(EXPIRIES.items()), required=False)

    def terms(self) -> KeyTerms:
        data = self.cleaned_data
        days = data["expires"]
        highest = PriorityClass.parse(data["highest_class"])
        return KeyTerms(
            label=data["label"],
            scopes=tuple(data["scopes"]),
            highest_class=highest.label,
            default_class=PriorityClass.STANDARD.clamped_to(highest).label,
            expires_at=timezone.now() + timedelta(days=int(days)) if days else None,
        )


def add_refusal(form: forms.Form, error: TenancyError) -> None:
    """Shows a service's words at the field at fault, else above the form."""
    field: Any = error.field if error.field in form.fields else None
    form.add_error(field, str(error))
