"""All black-box families of a history, lazily: the list that the command and the tests run."""

from __future__ import annotations

from checkers.black_box.availability import availability
from checkers.black_box.batches import batch_checks
from checkers.black_box.deletions import deletion_checks
from checkers.black_box.drain import drain_checks
from checkers.black_box.ends import end_checks
from checkers.black_box.facts import Facts
from checkers.black_box.holes import hole_checks
from checkers.black_box.lookups import lookup_checks
from checkers.black_box.lost import lost_checks
from checkers.black_box.offsets import offset_checks
from checkers.black_box.order import nonmonotonic_sends, real_time_checks, staleness
from checkers.black_box.polls import poll_checks
from checkers.black_box.producers import producer_checks
from checkers.black_box.unplaced import unplaced_checks
from checkers.black_box.values import value_checks
from checkers.black_box.visibility import visibility_checks
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group


def black_box(facts: Facts, of_records: Facts | None = None) -> dict[str, Group]:
    """Groups that run as one job each, cut so that what shares a shuffle stays together.

    of_records: the same facts, for families that look at few rows but those of records; None: `facts`.
    """
    records = of_records or facts

    def by_value() -> list[Family]:
        return [
            value_checks(records),
            offset_checks(records),
            lost_checks(records),
            nonmonotonic_sends(records),
            batch_checks(records),
        ]

    def by_time() -> list[Family]:
        return [
            real_time_checks(facts),
            staleness(facts),
            visibility_checks(facts),
            end_checks(facts),
            # Of a history of which the settled part is left out, it was measured of the whole.
            *([availability(facts)] if facts.settled is None else []),
            *([lookup_checks(facts)] if facts.lookups else []),
        ]

    def by_poll() -> list[Family]:
        deleted = facts.expiry is not None and facts.expiry.requested
        families = [poll_checks(facts), hole_checks(facts), drain_checks(facts), producer_checks(facts)]
        return [*families, deletion_checks(facts)] if deleted else families

    return {"values": by_value, "times": by_time, "polls": by_poll}


def of_imported(facts: Facts) -> dict[str, Group]:
    """One job, of histories from elsewhere alone."""
    return {"places": lambda: [unplaced_checks(facts)]}
