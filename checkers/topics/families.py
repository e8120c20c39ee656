"""All families of topics that are made anew, lazily."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.topics.answers import answer_checks
from checkers.topics.facts import build_topic_facts
from checkers.topics.reads import read_checks
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def remade_topics(history: History, faults: Iterable[Fault]) -> dict[str, Group]:
    """One job. Nothing is computed before it is called."""

    def build() -> list[Family]:
        facts = build_topic_facts(history, faults)
        return [read_checks(facts), answer_checks(facts)]

    return {"topics that are made anew": build}
