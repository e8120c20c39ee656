"""What coverage is judged by: queries over a run's tables that run beside the checkers, put together to `Seen`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from checkers.coverage import damage_met as damage
from checkers.coverage import incidents
from checkers.coverage.drain import drain_gaps
from checkers.coverage.fault_reach import reads_impossible, writes_impossible
from checkers.coverage.leaders import leaderless
from checkers.coverage.queries import (
    around_faults,
    election_faults,
    elections_of,
    heads_deleted,
    isr_changes,
    isrs_of,
    load_gaps,
    output_partitions,
    replicas_by_partition,
)
from checkers.coverage.recovery import QuietWindow, Work, load_end_ns, too_short, unreached_partitions
from checkers.coverage.requirements import Seen
from checkers.evidence.node_logs import log_failures
from checkers.evidence.prepare import Prepared
from checkers.evidence.timeline import Evidence
from checkers.history.faults import Fault
from checkers.history.load import History
from checkers.progress import Progress
from checkers.verdicts.verdict import Row


class Queries:
    """What coverage asks of the tables, begun at once."""

    def __init__(self, pool: ThreadPoolExecutor, progress: Progress, history: History, evidence: Evidence) -> None:
        info = self._info = evidence.info
        self._elections = progress.watch(pool.submit(elections_of, evidence))
        self._around = progress.watch(pool.submit(around_faults, history, scripted=info.scripted))
        self._load_gaps = progress.watch(pool.submit(load_gaps, history, info.partitions))
        self._isr_changes = progress.watch(pool.submit(isr_changes, evidence))
        self._isrs = progress.watch(pool.submit(isrs_of, evidence))
        self._replicas = progress.watch(pool.submit(replicas_by_partition, evidence))
        self._outputs = progress.watch(pool.submit(output_partitions, history, info))
        asked = info.checks.get("heads_deleted")
        self._heads_deleted = pool.submit(heads_deleted, history, info.partitions) if asked else None

    def seen(
        self,
        run_dir: Path,
        prepared: Prepared,
        faults: Sequence[Fault],
        marks: Sequence[Mapping[str, Any]],
        rows: Sequence[Row],
        durable: Sequence[Mapping[str, Any]],
        met: Mapping[int, damage.Meeting],
        quiet_windows: Sequence[QuietWindow],
        work: Future[dict[QuietWindow, dict[str, Work]]],
    ) -> Seen:
        """What the run showed, once all queries have come back. durable: acknowledged records of each partition. met:
        which damage brokers met. work: what was done in the quiet windows.
        """
        info = self._info
        elections = self._elections.result()
        shrinks, expansions = self._isr_changes.result()
        unreached, reached = unreached_partitions(info.partitions, quiet_windows, work.result())
        nobody = leaderless(info, faults, self._isrs.result())
        has_znodes, has_events = not prepared.missing_evidence.get("zookeeper"), bool(prepared.event_files)
        return Seen(
            acknowledged=sum(int(row["acknowledged"]) for row in durable),
            elections=len(elections) if has_znodes else None,
            elections_by_partition=Counter(election.p for election in elections),
            election_faults=election_faults(elections, faults, info, met),
            lag_shrinks=shrinks if has_events and has_znodes else None,
            expansions=expansions if has_events and has_znodes else None,
            heads_deleted=None if self._heads_deleted is None else self._heads_deleted.result(),
            faults=[damage.as_json(fault, met) for fault in faults],
            around=self._around.result(),
            load_gaps=self._load_gaps.result(),
            too_short=too_short(info, faults, load_end_ns(marks)),
            unreached=unreached,
            reached=reached,
            drain_gaps=drain_gaps(info, rows, self._replicas.result(), self._outputs.result()),
            writes_impossible=writes_impossible(info, faults) | nobody.writes,
            reads_impossible=reads_impossible(info, faults) | nobody.polls,
            unexplained=[*incidents.unexplained(marks), *log_failures(run_dir, info)],
            faults_asked=info.fault_kinds,
        )
