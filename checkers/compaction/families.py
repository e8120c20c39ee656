"""All families of compaction, lazily."""

from __future__ import annotations

from checkers.black_box.facts import Facts
from checkers.compaction.keys import key_checks
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def compaction(facts: Facts, tombstones_ms: int) -> dict[str, Group]:
    """One job; nothing is computed before it is called. tombstones_ms: how long a cleaner leaves tombstones
    (`delete.retention.ms`).
    """

    def build() -> list[Family]:
        return [key_checks(facts, tombstones_ms * 1_000_000)]

    return {"compaction": build}
