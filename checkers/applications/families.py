"""All families of applications, lazily."""

from __future__ import annotations

from checkers.applications.promises import promise_checks
from checkers.black_box.facts import Facts
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def applications(facts: Facts) -> dict[str, Group]:
    """One job. Nothing is computed before it is called."""

    def build() -> list[Family]:
        return [promise_checks(facts)]

    return {"applications": build}
