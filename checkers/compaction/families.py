"""All families of compaction, lazily."""

from __future__ import annotations

from checkers.black_box.facts import Facts
from checkers.compaction.keys import key_checks
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def compaction(facts: Facts) -> dict[str, Group]:
    """One job. Nothing is computed before it is called."""

    def build() -> list[Family]:
        return [key_checks(facts)]

    return {"compaction": build}
