"""An operator (or a member) at work on an installation: signs in over HTTP as a browser does, then
uses the control API with the session.
"""

from __future__ import annotations

import http.cookiejar
import json
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.installation import Installation
from tests.servers import wait_until

LOGIN = "/accounts/login/"
PLENTY = {"tpm": 10**9, "rpm": 10**7, "concurrent": 10**5}


class Refused(Exception):
    """``status`` and ``problem`` say why."""

    def __init__(self, status: int, problem: Any) -> None:
        super().__init__(f"{status}: {problem}")
        self.status = status
        self.problem = problem


@dataclass
class Operator:
    """Calls return the JSON of the answer; ``committed_s`` is the monotonic time at which the last
    one had come, hence at which its change was committed at the latest."""

    place: Installation
    committed_s: float = 0.0
    cookies: http.cookiejar.CookieJar = field(default_factory=http.cookiejar.CookieJar)

    def __post_init__(self) -> None:
        handler = urllib.request.HTTPCookieProcessor(self.cookies)
        self._opener = urllib.request.build_opener(handler)

    def sign_in(self, account: dict[str, str]) -> Operator:
        self._opener.open(self.place.url + LOGIN, timeout=30).read()
        form = {"login": account["username"], "password": account["password"]}
        form["csrfmiddlewaretoken"] = self._csrf
        with self._opener.open(
            self.place.url + LOGIN, urllib.parse.urlencode(form).encode(), timeout=30
        ) as page:
            assert not page.url.endswith(LOGIN), "the sign-in was refused"
        return self

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def post(self, path: str, **body: Any) -> Any:
        return self.ask("POST", path, body)

    def put(self, path: str, **body: Any) -> Any:
        return self.ask("PUT", path, body)

    def delete(self, path: str) -> Any:
        return self.ask("DELETE", path)

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        """Raises Refused."""
        request = urllib.request.Request(
            f"{self.place.url}/api/v1{path}",
            None if body is None else json.dumps(body).encode(),
            {"content-type": "application/json", "x-csrftoken": self._csrf} | (headers or {}),
            method=method,
        )
        try:
            with self._opener.open(request, timeout=30) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as refusal:
            raise Refused(refusal.code, refusal.read()) from refusal
        finally:
            self.committed_s = time.monotonic()
        return told

    def version(self, tenant: str) -> int:
        """Of the configuration, at the last change of this tenant."""
        return int(self.get(f"/tenants/{tenant}/audit?limit=1")[0]["config_version"])

    def record_of(self, call_id: str, within_s: float = 30.0) -> dict[str, Any]:
        """The ledger's record of a call that has ended, once it is written."""
        until_s = time.monotonic() + within_s
        while True:
            try:
                told = self.get(f"/calls/{call_id}")
            except Refused as refused:
                if refused.status != 404 or time.monotonic() > until_s:
                    raise
            else:
                if told["record"] is not None:
                    return dict(told["record"])
                assert time.monotonic() < until_s, told
            time.sleep(0.02)

    @property
    def _csrf(self) -> str:
        return next((each.value or "" for each in self.cookies if "csrf" in each.name), "")


def operator_of(place: Installation) -> Operator:
    return Operator(place).sign_in(place.facts["operator"])


def unlimited(place: Installation, *tenants: str) -> Operator:
    """An operator, once limits that no test reaches are in force for these."""
    operator = operator_of(place)
    for tenant in tenants:
        for meter, amount in PLENTY.items():
            limit = {"meter": meter, "amount": amount, "klass": "online", "why": "test"}
            told = operator.put(f"/tenants/{tenant}/limits", **limit)
    version = told["config_version"]
    wait_until(lambda: place.series("fairway_config_version") >= version, "the new limits")
    return operator
