"""Transactional cycles: G0, G1b, G1c, G-single and G2 (Adya), with their session and strict forms.

Invalid are cycles of `wr` edges alone, orders of time included: read_committed returns what is committed, so that who
reads comes after whom it reads. The others are what Kafka's transactions permit (KIP-98): writes are not isolated, and
nothing gives one view of several partitions. They are found, counted and shown, and fail nothing.

Grain: one finding per component (`cycle_components`), and per pair for G1b. Its witness is a shortest cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.transactions.cycle_components import G0, G1B, G1C, G2, G_SINGLE, PLAIN, SESSION, STRICT, Cycle, cycles
from checkers.transactions.cycle_edges import PROCESS, RW, WR, WW, dependencies
from checkers.transactions.cycle_peeling import DATA, LAYERS, ORDERED, READS, Edge, peel
from checkers.transactions.cycle_stretches import Found, home, key, search
from checkers.verdicts.findings import Family, figures
from checkers.verdicts.verdict import WITNESSES, Row

MOST_EDGES = 500_000
"""Of each layer so many edges that may be on a cycle come to the driver. Of more, workers search one stretch of time
after the other; where one stretch has more the verdict is unknown.
"""
SHOWN = 2
"""Of each kind and form of what is permitted so many cycles are shown, the shortest."""

_REACH = {READS: (G1C,), DATA: (G0, G1B, G1C, G_SINGLE, G2), ORDERED: (G0, G1C, G_SINGLE, G2)}
"""Layer → checkers that rest on it."""


def cycle_checks(facts: Facts, bound: int = MOST_EDGES) -> Family:
    """Runs a job when it is called: what peeling leaves is searched on the driver, or, of too much, by workers."""
    edges = dependencies(facts)
    found, over = _found(edges, bound)
    searched = [Row(G2, "figure", None, 1, detail="edges_searched", figure=float(found.edges))]
    counted = (
        edges.where(F.col("p").isNotNull())
        .groupBy("p")
        .agg(
            F.count_if(F.col("edge") == WW).alias("ww"),
            F.count_if((F.col("edge") == WR) & (F.col("v") >= 0)).alias("wr"),
            F.count_if(F.col("edge") == WR).alias("any_wr"),
            F.count_if(F.col("edge") == RW).alias("rw"),
        )
    )
    seen = figures(
        counted,
        {
            (G0, "writes_in_order"): F.col("ww"),
            (G1B, "transactions_read"): F.col("any_wr"),
            (G1C, "read_by_transactions"): F.col("wr"),
            (G_SINGLE, "reads_to_the_end"): F.col("rw"),
            (G2, "reads_to_the_end"): F.col("rw"),
        },
    )
    return Family(None, seen, [*_rows(found), *_undecided(sorted(over), bound), *searched])


def _found(edges: DataFrame, bound: int) -> tuple[Found, AbstractSet[str]]:
    """What was found, and the layers that were not searched whole."""
    peeled = peel(edges, bound)
    if peeled.over:
        found = search(edges, bound, WITNESSES)
        return found, frozenset(LAYERS) if found.over else frozenset()
    whole = cycles(peeled.edges)
    return Found(whole, Counter(map(key, whole)), len(peeled.edges[ORDERED]), False), frozenset()


def _undecided(over: Sequence[str], bound: int) -> list[Row]:
    return [
        Row(
            checker,
            "unknown",
            None,
            1,
            rule=layer,
            detail=f"more than {bound:,} dependencies of one stretch of time may be on a cycle; beyond those no cycle "
            "was looked for",
        )
        for layer in over
        for checker in _REACH[layer]
    ]


def _rows(found: Found) -> list[Row]:
    """One row per cycle that is shown, and per partition of what is not, so that every count is there."""
    totals: Counter[tuple[str, str, str | None]] = Counter()
    forms: Counter[tuple[str, str, str | None]] = Counter()
    for (kind, form, reads_only, p), count in found.totals.items():
        totals[kind, _rule(form, reads_only), p] += count
        forms[kind, form, p] += count if form != PLAIN else 0
    shown: Counter[tuple[str, str]] = Counter()
    told: set[tuple[str, str, str | None]] = set()
    rows = []
    for cycle in found.shown:
        rule, p = _rule(cycle.form, cycle.reads_only), home(cycle)
        shown[cycle.kind, rule] += 1
        most = WITNESSES if cycle.reads_only else SHOWN
        if shown[cycle.kind, rule] <= most or (cycle.kind, rule, p) not in told:
            told.add((cycle.kind, rule, p))
            rows.append(_row(cycle, rule, p, totals[cycle.kind, rule, p]))
    of_forms = [
        Row(kind, "figure", p, 1, detail=f"{form}_forms", figure=float(count))
        for (kind, form, p), count in sorted(forms.items(), key=str)
        if count
    ]
    return [*rows, *of_forms]


def _rule(form: str, reads_only: bool) -> str:
    return "-".join(part for part in ("reads" if reads_only else "", form) if part)


def _row(cycle: Cycle, rule: str, p: str | None, count: int) -> Row:
    ops = [op for edge in cycle.edges for op in (edge.from_op, edge.to_op) if op is not None]
    times = [at for edge in cycle.edges for at in (edge.at_u, edge.at_v)]
    return Row(
        cycle.kind,
        "invalid" if cycle.reads_only else "allowed",
        p,
        count,
        ops=tuple(sorted(set(ops))),
        from_ns=min(times),
        to_ns=max(times),
        detail=_sentence(cycle),
        rule=rule,
        cycle=tuple(_edge_json(edge) for edge in cycle.edges),
    )


_FORMS = {PLAIN: "", SESSION: ", with the order of one process", STRICT: ", with the order of time"}


def _sentence(cycle: Cycle) -> str:
    around = " → ".join([*(_name(edge.u) for edge in cycle.edges), _name(cycle.edges[0].u)])
    more = f" (one of the cycles of {cycle.nodes} that depend on each other)" if cycle.nodes > len(cycle.edges) else ""
    steps = "; ".join(f"{_text(edge)} ({edge.edge})" for edge in cycle.edges)
    return f"{around}{_FORMS[cycle.form]}{more}: {steps}"


def _edge_json(edge: Edge) -> dict[str, Any]:
    return {
        "from": _name(edge.u),
        "to": _name(edge.v),
        "edge": edge.edge,
        "partition": edge.p,
        "offset": edge.to_offset,
        "text": _text(edge),
        "at_ns": edge.at_u,
    }


def _name(node: int) -> str:
    return f"transaction {node}" if node >= 0 else f"poll {-node - 1}"


def _text(edge: Edge) -> str:
    u, v = _name(edge.u), _name(edge.v)
    match edge.edge:
        case "ww":
            return (
                f"value {edge.from_value} of {u} stands at {edge.p} offset {edge.from_offset}, before value "
                f"{edge.to_value} of {v} at offset {edge.to_offset}"
            )
        case "wr":
            return f"value {edge.from_value} of {u}, at {edge.p} offset {edge.from_offset}, was returned to {v}"
        case "rw":
            return (
                f"{u} read {edge.p} to its last stable offset {edge.from_offset}, and value {edge.to_value} of {v}, at "
                f"offset {edge.to_offset}, was not yet there"
            )
        case _:
            of_process = f"one process carried out {u} before {v}"
            return of_process if edge.edge == PROCESS else f"{u} was over before {v} began"
