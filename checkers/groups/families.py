"""All families of groups, lazily."""

from __future__ import annotations

from checkers.groups.ahead import ahead_checks
from checkers.groups.facts import build_group_facts
from checkers.groups.fences import fence_checks
from checkers.groups.generations import generation_checks
from checkers.groups.orders import order_checks
from checkers.groups.owners import owner_checks
from checkers.groups.registers import judged_fetches, register_checks
from checkers.groups.static_members import static_checks
from checkers.history.load import History
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def of_groups(history: History) -> dict[str, Group]:
    """One job. Nothing is computed before it is called."""

    def build() -> list[Family]:
        facts = build_group_facts(history)
        fetches = judged_fetches(facts)
        return [
            owner_checks(facts),
            register_checks(facts, fetches),
            order_checks(facts, fetches),
            ahead_checks(facts),
            fence_checks(facts),
            generation_checks(facts),
            static_checks(facts),
        ]

    return {"groups": build}
