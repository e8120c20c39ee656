"""Whether the final drain read every partition to its end: by which reader, and with which replica as leader.

Pure: figures of the checker `final-drain` in, or of `last-value` where that is what judges readings, sentences out.
Each is a reason why a run is not valid (unknown).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checkers.history.run_info import RunInfo
from checkers.verdicts.catalogue import DRAINED, HEALED
from checkers.verdicts.verdict import Row

BY_KEYS = "last-value"
"""Of a compacted topic the records that are left are judged key by key."""
_READERS = (("wire", "the wire reader"), ("confluent", "the real client"))


def drain_gaps(
    info: RunInfo, rows: Sequence[Row], replicas: Mapping[str, Sequence[int]], outputs: Sequence[str] = ()
) -> list[str]:
    """What was not read to the end, and by which reader: the healed cluster, and each replica's leadership.

    outputs: partitions that are not of the run's topic, to which what became of its records was sent.

    Healed: no broker of it was restarted since. Every run that gets this far has that round, whatever its faults and
    nodes (harness/workloads/append_poll/final_phase.py), with as much time as each later one (`limits.drain_s`).
    Of an imported history `unseen` says what was not read to its end. A workload with neither checker proves in its own
    way that records are there; its checkers judge that.
    """
    of_keys = info.checkers is not None and BY_KEYS in info.checkers
    checker = BY_KEYS if of_keys else "final-drain"
    if not info.wants(checker) or info.imported:
        return []
    names = {node.broker_id: node.name for node in info.brokers}
    drained = {(row.p, row.detail) for row in rows if row.checker == checker and row.kind == "figure"}
    gaps: list[str] = []
    for p in (*info.partitions, *outputs):
        assigned: Sequence[int | None] = replicas.get(p, ())
        if not assigned and info.replication_factor is not None and info.replication_factor == len(names):
            assigned = list(names)
        gaps += [
            f"drain of {p}: {who} did not read the healed cluster to its end before its brokers were stopped"
            for reader, who in _READERS
            if (p, f"{HEALED}{reader}") not in drained
        ]
        if not assigned:
            gaps.append(f"drain of {p}: its replicas are not known")
        for broker in assigned:
            node = names.get(broker, f"broker {broker}")
            for reader, who in _READERS:
                if (p, f"{DRAINED}{reader}:{node}") not in drained:
                    gaps.append(f"drain of {p}: {who} did not read it to the end with {node} as leader")
    return gaps
