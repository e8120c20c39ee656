"""All families of topics that are made anew, lazily."""

from __future__ import annotations

from collections.abc import Iterable

from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.topics.answers import answer_checks
from checkers.topics.facts import build_topic_facts
from checkers.topics.reads import read_checks
from checkers.topics.values import value_checks
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def remade_topics(history: History, faults: Iterable[Fault], *, over_when_answered: bool) -> dict[str, Group]:
    """One job. Nothing is computed before it is called. over_when_answered: see TopicFacts."""

    def build() -> list[Family]:
        facts = build_topic_facts(history, faults, over_when_answered=over_when_answered)
        return [read_checks(facts), answer_checks(facts), value_checks(facts)]

    return {"topics that are made anew": build}
