"""Which process of a node gave an answer, as far as the history shows it: what faults ended, nobody goes on from.

A process that a fault ends goes on until it is dead, somewhere between `began_ns` and `start_ns` of the fault: one that
is stopped in order serves meanwhile. The next one begins somewhere between `began_ns` and `time_ns` of the line that
takes the fault back. Answers in such a span are of no process that is known; those on different sides of one are of
different processes.

Source: docs/history-format.md, lines of the nemesis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from checkers.history.faults import EFFECTS, Fault

Ends = Sequence[tuple[str, int, int]]
"""(node, from, until) in run time, ns: somewhere in this span its process may have ended or begun, or had files changed
on disk.
"""


def ends_of(faults: Iterable[Fault]) -> Ends:
    """Of a run's faults, each as it was applied and as it was taken back. One that does not say what it does, or names
    an effect that is not known here, may do anything. A line without `began_ns` is a span of no length.
    """
    spans = []
    for fault in faults:
        if fault.stops_process or fault.damages_files or not fault.effects or fault.effects - EFFECTS:
            began_ns = fault.start_ns if fault.began_ns is None else fault.began_ns
            spans += [(node, began_ns, fault.start_ns) for node in fault.targets]
            if fault.stop_ns is not None:
                heal_ns = fault.stop_ns if fault.stop_began_ns is None else fault.stop_began_ns
                spans += [(node, heal_ns, fault.stop_ns) for node in fault.targets]
    return spans


def life(ends: Ends) -> Column:
    """Of a row with node, phase, invoke_ns and complete_ns. Equal for two answers only if one process gave both; null
    where a span of an end touches the time from question to answer, or the node is not known; what is asked just as one
    is over comes after it. Brokers are restarted between phases, too.
    """
    begins: dict[str, list[int]] = {}
    overs: dict[str, list[int]] = {}
    for node, from_ns, until_ns in ends:
        begins.setdefault(node, []).append(from_ns)
        overs.setdefault(node, []).append(until_ns)

    # Spans that are over when it is asked have begun when it is answered: as many are the same ones, and no other.
    begun, over = _by(begins, F.col("complete_ns")), _by(overs, F.col("invoke_ns"))
    named = F.concat_ws("/", "node", "phase", over.cast("string"))
    return F.when((begun == over) & F.col("node").isNotNull(), named).alias("life")


def _by(times_of: dict[str, list[int]], at: Column) -> Column:
    """How many of the node's times were at `at` or before."""
    # Flat, however many there are: Spark goes down into what is nested, and runs out of stack.
    counted = [
        F.when(
            F.col("node") == node,
            F.size(F.filter(F.array(*[F.lit(time_ns) for time_ns in times]), lambda one: one <= at)),
        )
        for node, times in times_of.items()
    ]
    return F.coalesce(*counted, F.lit(0))
