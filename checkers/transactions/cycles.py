"""Transactional cycles: G0, G1b, G1c, G-single and G2 (Adya), with their session and strict forms.

Invalid are cycles of `wr` edges alone, orders of time included: read_committed returns what is committed, so that who
reads comes after whom it reads. The others are what Kafka's transactions permit (KIP-98): writes are not isolated, and
nothing gives one view of several partitions. They are found, counted and shown, and fail nothing.

Grain: one finding per component (`cycle_components`), and per pair for G1b. Its witness is a shortest cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F

from checkers.black_box.facts import Facts
from checkers.transactions.cycle_components import G0, G1B, G1C, G2, G_SINGLE, PLAIN, SESSION, STRICT, Cycle, cycles
from checkers.transactions.cycle_edges import PROCESS, RW, WR, WW, dependencies
from checkers.transactions.cycle_peeling import DATA, ORDERED, READS, Edge, peel
from checkers.verdicts.findings import Family, figures
from checkers.verdicts.verdict import WITNESSES, Row

MOST_EDGES = 500_000
"""Of each layer so many edges that may be on a cycle come to the driver; of more the verdict is unknown."""
SHOWN = 2
"""Of each kind and form of what is permitted so many cycles are shown, the shortest."""

_REACH = {READS: (G1C,), DATA: (G0, G1B, G1C, G_SINGLE, G2), ORDERED: (G0, G1C, G_SINGLE, G2)}
"""Layer → checkers that rest on it."""


def cycle_checks(facts: Facts, bound: int = MOST_EDGES) -> Family:
    """Runs one job when it is called: what peeling leaves is searched on the driver."""
    edges = dependencies(facts)
    peeled = peel(edges, bound)
    found = _rows(cycles(peeled.edges))
    searched = [Row(G2, "figure", None, 1, detail="edges_searched", figure=float(len(peeled.edges[ORDERED])))]
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
    return Family(None, seen, [*found, *_undecided(sorted(peeled.over), bound), *searched])


def _undecided(over: Sequence[str], bound: int) -> list[Row]:
    return [
        Row(
            checker,
            "unknown",
            None,
            1,
            rule=layer,
            detail=f"more than {bound:,} dependencies may be on a cycle; beyond those no cycle was looked for",
        )
        for layer in over
        for checker in _REACH[layer]
    ]


def _rows(found: Sequence[Cycle]) -> list[Row]:
    """One row per cycle that is shown, and per partition of what is not, so that every count is there."""
    totals = Counter((cycle.kind, _rule(cycle), _home(cycle)) for cycle in found)
    shown: Counter[tuple[str, str]] = Counter()
    told: set[tuple[str, str, str | None]] = set()
    rows = []
    for cycle in found:
        rule, p = _rule(cycle), _home(cycle)
        shown[cycle.kind, rule] += 1
        most = WITNESSES if cycle.reads_only else SHOWN
        if shown[cycle.kind, rule] <= most or (cycle.kind, rule, p) not in told:
            told.add((cycle.kind, rule, p))
            rows.append(_row(cycle, rule, p, totals[cycle.kind, rule, p]))
    forms = Counter((cycle.kind, cycle.form, _home(cycle)) for cycle in found if cycle.form != PLAIN)
    of_forms = [
        Row(kind, "figure", p, 1, detail=f"{form}_forms", figure=float(count))
        for (kind, form, p), count in sorted(forms.items(), key=str)
    ]
    return [*rows, *of_forms]


def _rule(cycle: Cycle) -> str:
    return "-".join(part for part in ("reads" if cycle.reads_only else "", cycle.form) if part)


def _home(cycle: Cycle) -> str | None:
    return next((edge.p for edge in cycle.edges if edge.p is not None), None)


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
