"""Which files of which nodes faults may have changed: what the rules on files must pass over, and nothing else.

Decided by the lines of the nemesis: each file fault names the file that it damaged. A line that names none, or effects
that no reader knows, leaves open what was changed, and then nothing of its targets is compared. Must not know what a
rule compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.history.faults import CUTS_POWER, DAMAGES_FILES, EFFECTS, partition_of_file


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """whole: nodes of which any file may have been changed. folders: (node, partition) of which one was. shared: nodes
    of which a file that is no partition's was, such as a checkpoint of watermarks. unsynced: nodes that lost power, and
    with it what was not on the disk: what was promised to be there is compared all the same.
    """

    whole: frozenset[str] = frozenset()
    folders: frozenset[tuple[str, str]] = frozenset()
    shared: frozenset[str] = frozenset()
    unsynced: frozenset[str] = frozenset()

    def spared(self) -> Column:
        """Of a row with `node` and `p`: no fault touched that replica's folder. True where `p` is null, and the node
        was not touched as a whole.
        """
        touched = F.col("node").isin(*sorted(self.whole))
        for node, p in sorted(self.folders):
            touched = touched | ((F.col("node") == node) & F.coalesce(F.col("p") == p, F.lit(False)))
        return ~touched

    def partitions(self) -> list[str]:
        """Those of which a file was touched, on whichever node; of nodes that were touched as a whole nobody knows."""
        return sorted({p for _, p in self.folders})

    def spared_shared(self) -> Column:
        """Of a row with `node`: no fault touched its files that are no partition's."""
        return ~F.col("node").isin(*sorted(self.whole | self.shared))

    def kept_power(self) -> Column:
        """Of a row with `node`: what it had written was there when it started again, synced or not."""
        return ~F.col("node").isin(*sorted(self.unsynced))

    def names(self) -> list[str]:
        """What is not compared, for people: `n1`, `hw-0 on n1`."""
        return [*sorted(self.whole), *(f"{p} on {node}" for node, p in sorted(self.folders))]


NOTHING_TOUCHED = TouchedFiles()


def touched_files(marks: DataFrame) -> TouchedFiles:
    """marks: `History.marks`. Few rows: one per fault."""
    strange = F.exists("effects", lambda effect: ~effect.isin(*sorted(EFFECTS)))
    hurts = F.coalesce(F.array_contains("effects", DAMAGES_FILES) | strange, F.lit(True))
    cuts = F.coalesce(F.array_contains("effects", CUTS_POWER), F.lit(False))
    begun = marks.where((F.col("kind") == "nemesis") & (F.col("f") == "start"))
    aimed = begun.select(F.explode("targets").alias("node"), "file", hurts.alias("hurts"), cuts.alias("cuts"))
    return touched_by(aimed.where(F.col("hurts") | F.col("cuts")).distinct().collect())


def touched_by(faults: Iterable[Any]) -> TouchedFiles:
    """faults: (node, file, hurts, cuts) of each, with attributes of these names; file below the broker's data folder,
    or None; hurts: it may have changed files; cuts: it cut the power.
    """
    aimed = list(faults)
    known = [(one.node, one.file) for one in aimed if one.hurts]
    of_partitions = [(node, partition_of_file(file)) for node, file in known if file is not None]
    return TouchedFiles(
        frozenset(node for node, file in known if file is None),
        frozenset((node, p) for node, p in of_partitions if p is not None),
        frozenset(node for node, p in of_partitions if p is None),
        frozenset(one.node for one in aimed if one.cuts),
    )
