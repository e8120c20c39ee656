"""Whom of the brokers something interrupted, as columns: who may not know of something, or may have forgotten it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from checkers.history.faults import Interruption

SETTLE_NS = 2_000_000_000
"""For how long after the end of an interruption a broker may not be known to be back."""

ANYBODY = "*"
"""In place of a broker's node, where nobody knows which it was."""


def joined(spans: Sequence[Interruption]) -> list[Interruption]:
    """By their begin, each lasting until nothing follows within SETTLE_NS."""
    groups: list[list[Interruption]] = []
    until_ns = 0
    for span in sorted(spans, key=lambda one: one.from_ns):
        if not groups or span.from_ns > until_ns + SETTLE_NS:
            groups.append([])
            until_ns = 0
        groups[-1].append(span)
        until_ns = max(until_ns, span.until_ns)
    return [replace(span, until_ns=max(one.until_ns for one in group)) for group in groups for span in group]


def touches(span: Interruption, node: Column) -> Column:
    """Whether it was one of this broker; of one that nobody knows it may have been."""
    return _one_of(span.nodes, node)


def takes_away(span: Interruption, node: Column) -> Column:
    """Whether that broker may have been killed in it, or counted as dead; of one that nobody knows it may have been."""
    return _one_of(span.nodes if span.gone is None or span.forgets else span.gone, node)


def changes(spans: Sequence[Interruption], node: Column, at_ns: Column) -> Column:
    """How often files of a broker had been changed by then."""
    begun = [(touches(span, node) & (at_ns >= span.from_ns)).cast("int") for span in spans if span.forgets]
    return reduce(Column.__add__, begun, F.lit(0))


def settled(spans: Sequence[Interruption], by: Column, written_ns: int) -> Column:
    """Of a deletion (`node`: who was asked, `invoke_ns`, `complete_ns`): whether a broker that was alive surely knew of
    it once it was acknowledged, and has it written down.

    spans: joined. by: the broker. written_ns: how long it has for that.
    """
    done = F.coalesce("complete_ns", "invoke_ns")
    unsettled = [
        (F.col("invoke_ns") - SETTLE_NS <= span.until_ns)
        & (
            (takes_away(span, by) & (done + written_ns >= span.from_ns))
            | (touches(span, F.col("node")) & (F.col("invoke_ns") >= span.from_ns))
        )
        for span in spans
    ]
    return ~reduce(Column.__or__, unsettled, F.lit(False))


def _one_of(nodes: frozenset[str] | None, node: Column) -> Column:
    return F.lit(True) if nodes is None else (node == ANYBODY) & F.lit(bool(nodes)) | node.isin(*sorted(nodes))
