"""Which process of a node gave an answer, as far as the history shows it: what faults ended, nobody goes on from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from checkers.history.faults import Fault

Ends = Sequence[tuple[str, int]]
"""(node, run time in ns) of whatever may have ended its process, or changed what it had on disk."""


def ends_of(faults: Iterable[Fault]) -> Ends:
    """Of a run's faults. One that does not say what it does may do anything."""
    return [
        (node, fault.start_ns if fault.began_ns is None else fault.began_ns)
        for fault in faults
        if fault.stops_process or fault.damages_files or not fault.effects
        for node in fault.targets
    ]


def life(ends: Ends) -> Column:
    """Of a row with node, phase, invoke_ns and complete_ns. Equal for two answers only if one process gave both; null
    where the node had one end between question and answer, or is not known. Brokers are restarted between phases, too.
    """

    by_node: dict[str, list[int]] = {}
    for node, began_ns in ends:
        by_node.setdefault(node, []).append(began_ns)

    def ended_by(at: Column) -> Column:
        # Flat, however many there are: Spark goes down into what is nested, and runs out of stack.
        counted = [
            F.when(
                F.col("node") == node,
                F.size(F.filter(F.array(*[F.lit(began_ns) for began_ns in times]), lambda one: one <= at)),
            )
            for node, times in by_node.items()
        ]
        return F.coalesce(*counted, F.lit(0))

    asked, answered = ended_by(F.col("invoke_ns")), ended_by(F.col("complete_ns"))
    named = F.concat_ws("/", "node", "phase", asked.cast("string"))
    return F.when((asked == answered) & F.col("node").isNotNull(), named).alias("life")
