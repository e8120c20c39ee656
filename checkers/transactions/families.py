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


def transactions(facts: Facts, *, cycles: bool = False) -> dict[str, Group]:
    """Groups that run as one job each. cycles: with those, of which a second job finds what may be on one."""

    def of_values() -> list[Family]:
        return [read_checks(facts), whole_checks(facts)]

    def of_offsets() -> list[Family]:
        return [stable_checks(facts), input_checks(facts), fence_checks(facts)]

    def of_cycles() -> list[Family]:
        # Imported late: what searches graphs is of use here alone.
        from checkers.transactions.cycles import cycle_checks

        return [cycle_checks(facts)]

    groups: dict[str, Group] = {"transactions": of_values, "transaction offsets": of_offsets}
    return groups | ({"transaction cycles": of_cycles} if cycles else {})
