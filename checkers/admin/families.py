"""All families of administration, lazily."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.admin.configs import config_checks
from checkers.admin.facts import build_admin_facts
from checkers.admin.partitions import partition_checks
from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def administration(history: History, faults: Iterable[Fault], *, one_server: bool) -> dict[str, Group]:
    """One job. Nothing is computed before it is called. one_server: whether ZooKeeper is a single server."""

    def build() -> list[Family]:
        facts = build_admin_facts(history, faults, one_server=one_server)
        return [config_checks(facts), *partition_checks(facts)]

    return {"administration": build}
