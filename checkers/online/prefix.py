"""The verdict so far: a prefix of a history → what no line that is still to come can excuse.

The same families judge it as judge the whole. Decides what of a prefix counts: an acknowledgement by acks=1, which a
change of leader may take back, counts as no answer, and so does the refusal of a batch with a sequence, which may be
sent again; no drain is known. The configuration decides which checkers are asked at all (`checkers.verdicts.prefixes`).
Must not know who asks, nor what they do with the answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from checkers.black_box.batches import batch_checks
from checkers.black_box.ends import end_checks
from checkers.black_box.facts import Facts, build_facts
from checkers.black_box.holes import hole_checks
from checkers.black_box.lost import LOST, lost_checks
from checkers.black_box.offsets import offset_checks
from checkers.black_box.order import nonmonotonic_sends, real_time_checks
from checkers.black_box.polls import poll_checks
from checkers.black_box.producers import producer_checks
from checkers.black_box.values import value_checks
from checkers.black_box.visibility import visibility_checks
from checkers.coverage.compacted import unfit
from checkers.coverage.missing_evidence import clients_resend, wanted
from checkers.history import schema
from checkers.history.load import History, load_history, span_of
from checkers.history.responses import by_wire
from checkers.history.run_info import RunInfo
from checkers.spark.tables import empty
from checkers.transactions.reads import read_checks
from checkers.transactions.stable import stable_checks
from checkers.verdicts.catalogue import BY_NAME
from checkers.verdicts.findings import Family
from checkers.verdicts.jobs import Group, collect_families
from checkers.verdicts.prefixes import CLOSED, Doubt, may_judge
from checkers.verdicts.transactions import TRANSACTIONS
from checkers.verdicts.verdict import WITNESSES, Row

CLOCKS_OFF_MS = 24 * 3600 * 1000
"""How far a broker's clock may be ahead before retention by time deletes what is not old enough by far."""


class NoPrefix(Exception):
    """These lines are no prefix of a history: nothing is judged. The text says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """What one checker found. operations: those of the finding that was complete first; at_ns: when, in run time."""

    checker: str
    count: int
    detail: str
    partition: str | None
    operations: tuple[int, ...]
    at_ns: int


@dataclass(frozen=True, slots=True)
class SoFar:
    """lines: how many were judged; to_ns: run time of the last of them. found: the earliest first."""

    lines: int
    to_ns: int
    acknowledged: int
    found: tuple[Found, ...]


def judge_prefix(spark: SparkSession, path: Path, parquet: Path, info: RunInfo) -> SoFar:
    """Judge whole lines of a history. parquet: a folder for its tables. Raises NoPrefix.

    The session's cache is empty afterwards.
    """
    to_ns, _, _ = span_of(path, clocks=False)
    try:
        whole, health = load_history(spark, path, parquet)
        problems = health.problems if health.operations else ()
        if problems or health.torn:
            raise NoPrefix("; ".join(problems) or "the last line has no end")
        history = known_for_good(whole)
        doubts = doubts_of(info, history, to_ns, deletions=health.deletions > 0)
        names = [name for name in CLOSED if wanted(BY_NAME[name], info) and not unfit(name, info)]
        rows = prefix_rows(
            history,
            transactions=any(wanted(spec, info) for spec in TRANSACTIONS),
            resends=clients_resend(info),
        )
    finally:
        spark.catalog.clearCache()
    acked = sum(int(row.figure) for row in rows if (row.checker, row.detail) == (LOST, "acknowledged"))
    return SoFar(health.lines, to_ns, acked, found_by([name for name in names if may_judge(name, doubts)], rows))


def known_for_good(history: History) -> History:
    """The tables of a prefix, without what may be taken back later."""
    by_one = ~F.col("acks").isin(-1, 0) & (F.col("outcome") == "ok")
    perhaps_again = F.col("producer_id").isNotNull() & (F.col("outcome") == "fail")
    open_yet = F.coalesce(by_one | perhaps_again, F.lit(False))
    sends = history.sends.withColumns(
        {
            "offset": F.when(~open_yet, F.col("offset")),
            "outcome": F.when(open_yet, F.lit("info")).otherwise(F.col("outcome")),
        }
    )
    return dataclasses.replace(history, sends=sends, marks=history.marks.where(F.col("f") != "drain-complete"))


def doubts_of(info: RunInfo, history: History, to_ns: int, *, deletions: bool) -> frozenset[Doubt]:
    """What may excuse a finding in this run. deletions: whether the prefix asks for any."""
    found: set[Doubt] = set()
    if info.unclean:
        found.add("unclean")
    kept_ms = info.retention.time_ms
    by_age = kept_ms is not None and kept_ms < to_ns / 1e6 + CLOCKS_OFF_MS
    if deletions or by_age or info.retention.size_bytes is not None:
        found.add("deletions")
    if not history.sends.where(F.col("txn").isNotNull()).isEmpty():
        found.add("transactions")
    return frozenset(found)


def prefix_rows(
    history: History, *, transactions: bool, resends: bool = False, witnesses: int = WITNESSES
) -> list[Row]:
    """What the families of prefix-closed checkers found, one job after the other. witnesses: of each kind, at most;
    resends: as `Facts` has it.
    """
    no_changes = empty(history.sends.sparkSession, schema.LEADER_CHANGE)
    facts = build_facts(history, no_changes, expiry=None, resends=resends)
    return collect_families(_groups(facts, transactions=transactions), parallel=1, witnesses=witnesses)


def _groups(facts: Facts, *, transactions: bool) -> dict[str, Group]:
    """As `checkers.black_box.families` has them, without those that nothing may be concluded from."""

    none = empty(facts.history.sends.sparkSession, schema.FIGURE)

    def found(*families: Family) -> list[Family]:
        # A verdict so far needs no figures, which are half of the plans.
        return [dataclasses.replace(family, figures=none) for family in families]

    def by_value() -> list[Family]:
        counting = lost_checks(facts)
        values, offsets, order = value_checks(facts), offset_checks(facts), nonmonotonic_sends(facts)
        return [counting, *found(values, offsets, order, batch_checks(facts))]

    def by_time() -> list[Family]:
        return found(real_time_checks(facts), visibility_checks(facts), end_checks(facts))

    def by_poll() -> list[Family]:
        return found(poll_checks(facts), hole_checks(_wire_polls(facts)), producer_checks(facts))

    def of_transactions() -> list[Family]:
        return found(read_checks(facts), stable_checks(facts))

    groups: dict[str, Group] = {"values": by_value, "times": by_time, "polls": by_poll}
    return groups | ({"transactions": of_transactions} if transactions else {})


def _wire_polls(facts: Facts) -> Facts:
    """The lab's own polls alone, whose answers say where the log began. A real client's do not: what it passed over, a
    log start may explain that is told later.
    """
    requests = facts.history.requests.where(by_wire())
    return dataclasses.replace(facts, history=dataclasses.replace(facts.history, requests=requests))


def found_by(names: Iterable[str], rows: Sequence[Row]) -> tuple[Found, ...]:
    """Findings of these checkers, one of each, the one that was complete first; in the order of their times."""
    found = []
    for name in names:
        mine = [row for row in rows if row.checker == name and row.kind == "invalid"]
        if mine:
            first = min(mine, key=lambda row: (row.to_ns is None, row.to_ns or 0))
            count = sum({(row.p, row.rule): row.count for row in mine}.values())
            found.append(Found(name, count, first.detail, first.p, first.ops, first.to_ns or 0))
    return tuple(sorted(found, key=lambda one: one.at_ns))
