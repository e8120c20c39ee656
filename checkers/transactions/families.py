"""All families of transactions, lazily: the list that the command and the tests run."""

from __future__ import annotations

from checkers.black_box.facts import Facts
from checkers.transactions.fences import fence_checks
from checkers.transactions.inputs import input_checks
from checkers.transactions.reads import read_checks
from checkers.transactions.stable import stable_checks
from checkers.transactions.whole import whole_checks
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def transactions(facts: Facts) -> dict[str, Group]:
    """Groups that run as one job each."""

    def of_values() -> list[Family]:
        return [read_checks(facts), whole_checks(facts)]

    def of_offsets() -> list[Family]:
        return [stable_checks(facts), input_checks(facts), fence_checks(facts)]

    return {"transactions": of_values, "transaction offsets": of_offsets}
