"""Binary evidence → Parquet, before Spark looks at it: segments, checkpoints, ZooKeeper's transactions.

Decides what is missing (a reason for unknown per source); judges nothing. Small evidence is decoded here, while the
JVM is still starting; segment files beyond `DRIVER_BYTES` are decoded by Spark's workers, one task per partition
folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from checkers.evidence import recorded
from checkers.evidence.checkpoints import read_checkpoints
from checkers.evidence.segments import read_partition
from checkers.evidence.zk_txnlog import Change, read_log_folder
from checkers.history import schema
from checkers.history.run_info import RunInfo
from checkers.spark.tables import read_table, write_table

DRIVER_BYTES = 64_000_000

_ZNODE = pa.schema(
    [
        ("node", pa.string()),
        ("zxid", pa.int64()),
        ("position", pa.int32()),
        ("time_ms", pa.int64()),
        ("session", pa.int64()),
        ("op", pa.string()),
        ("path", pa.string()),
        ("version", pa.int32()),
        ("data", pa.string()),
    ]
)
_BATCH = pa.schema(
    [
        ("node", pa.string()),
        ("p", pa.string()),
        ("file", pa.string()),
        ("file_position", pa.int64()),
        ("base", pa.int64()),
        ("last", pa.int64()),
        ("epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("base_sequence", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("marker", pa.string()),
        ("records", pa.int32()),
        ("crc_ok", pa.bool_()),
        ("digest", pa.string()),
        ("values", pa.list_(pa.int64())),
        ("problem", pa.string()),
    ]
)
_CHECKPOINT = pa.schema(
    [
        ("node", pa.string()),
        ("kind", pa.string()),
        ("p", pa.string()),
        ("position", pa.int32()),
        ("epoch", pa.int32()),
        ("offset", pa.int64()),
        ("problem", pa.string()),
    ]
)


@dataclass(slots=True)
class Prepared:
    """What is on disk as Parquet now. missing_evidence: per source, why a rule that rests on it cannot be valid."""

    folders: list[tuple[str, Path]] = field(default_factory=list)
    """(node, partition folder) still to be decoded by Spark; empty when `batches` is written."""
    event_files: list[tuple[str, Path]] = field(default_factory=list)
    missing_evidence: dict[str, list[str]] = field(default_factory=dict)
    evidence_nodes: list[str] = field(default_factory=list)
    segment_nodes: list[str] = field(default_factory=list)
    """Nodes whose log folders are there, be it in part, and are what was recorded."""

    def note_missing(self, source: str, text: str) -> None:
        self.missing_evidence.setdefault(source, []).append(text)


def prepare(run_dir: Path, info: RunInfo) -> Prepared:
    """Decode what needs no Spark, under run_dir/parquet; find what is not there."""
    prepared = Prepared()
    parquet = run_dir / "parquet"
    parquet.mkdir(parents=True, exist_ok=True)
    altered = _note_changed(run_dir, info, prepared)
    _prepare_zookeeper(run_dir, info, prepared, parquet)
    checkpoints: list[dict[str, Any]] = []
    if not info.brokers:
        for source in ("events", "segments"):
            prepared.note_missing(source, "run.json names no broker node")
    for node in info.brokers:
        root = run_dir / "evidence" / node.name
        if root.is_dir():
            prepared.evidence_nodes.append(node.name)
        events = root / "events.jsonl"
        if events.is_file():
            prepared.event_files.append((node.name, events))
        else:
            prepared.note_missing("events", f"no event log of {node.name}")
        data = root / "data"
        if not data.is_dir():
            prepared.note_missing("segments", f"no log folders of {node.name}")
            continue
        if node.name not in altered:
            prepared.segment_nodes.append(node.name)
        for folder in data_folders(data):
            checkpoints += read_checkpoints(node.name, folder)
            prepared.folders += [(node.name, path) for path in partition_folders(folder)]
    _write(parquet / "checkpoints", checkpoints, _CHECKPOINT)
    sizes = [sum(path.stat().st_size for path in folder.glob("*.log")) for _, folder in prepared.folders]
    if sum(sizes) <= DRIVER_BYTES:
        rows = [row for node_name, folder in prepared.folders for row in read_partition(node_name, folder)]
        _write(parquet / "batches", rows, _BATCH)
        prepared.folders = []
    return prepared


def _note_changed(run_dir: Path, info: RunInfo, prepared: Prepared) -> list[str]:
    """What is not as it was recorded counts as missing; the nodes of which something is not."""
    history, nodes = recorded.changed(run_dir, info)
    if history:
        prepared.note_missing("history", "history.jsonl is not what was recorded: its SHA-256 differs from run.json's")
    zookeepers = {node.name for node in info.zookeepers}
    for node in nodes:
        for source in ("zookeeper",) if node in zookeepers else ("events", "segments"):
            prepared.note_missing(source, f"the evidence of {node} is not what was recorded: its SHA-256 differs")
    return nodes


def data_folders(data: Path) -> list[Path]:
    """The log dirs under a node's data: itself, or one level below where a broker has several."""
    if any(data.glob("*/*.log")) or (data / "replication-offset-checkpoint").exists():
        return [data]
    below = [path for path in data.iterdir() if path.is_dir() and any(path.glob("*/*.log"))]
    return sorted(below) or [data]


def partition_folders(data: Path) -> list[Path]:
    """`topic-0`, not `topic-0.<hex>-delete`."""
    return sorted(path for path in data.iterdir() if path.is_dir() and path.name.rpartition("-")[2].isdigit())


def batches_table(spark: SparkSession, parquet: Path, prepared: Prepared) -> DataFrame:
    """schema.BATCH of all replicas, as Parquet."""
    if prepared.folders:
        work = spark.createDataFrame(
            [(node, str(path)) for node, path in prepared.folders], "node string, path string"
        ).repartition(len(prepared.folders))
        decoded = work.mapInArrow(_decode_task, schema.BATCH)
        write_table(decoded, parquet / "batches")
    return read_table(spark, schema.BATCH, parquet / "batches")


def _decode_task(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for work in part.to_pylist():
            rows = read_partition(work["node"], Path(work["path"]))
            for start in range(0, len(rows), 10_000):
                yield pa.RecordBatch.from_pylist(rows[start : start + 10_000], schema=_BATCH)


def _prepare_zookeeper(run_dir: Path, info: RunInfo, prepared: Prepared, parquet: Path) -> None:
    """One table of the changes of all servers; a transaction that several servers logged stands once."""
    changes: dict[tuple[int, int], tuple[str, Change]] = {}
    whole = False
    problems: list[str] = []
    if not info.zookeepers:
        problems.append("run.json names no ZooKeeper node, so there is no transaction log")
    for node in info.zookeepers:
        folder = run_dir / "evidence" / node.name / "zookeeper" / "version-2"
        if not folder.is_dir():
            problems.append(f"no transaction log of {node.name}")
            continue
        prepared.evidence_nodes.append(node.name)
        log = read_log_folder(folder)
        problems += [f"{node.name}: {problem}" for problem in log.problems]
        # One server that has every transaction is enough; a second one adds nothing but what it alone saw.
        whole = whole or not log.problems
        for change in log.changes:
            changes.setdefault((change.zxid, change.position), (node.name, change))
    if not whole:
        for problem in problems:
            prepared.note_missing("zookeeper", problem)
    rows = [{"node": node, **change._asdict()} for _, (node, change) in sorted(changes.items())]
    _write(parquet / "znodes", rows, _ZNODE)


def _write(folder: Path, rows: Sequence[dict[str, Any]], kind: pa.Schema) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=kind), folder / "part-0.parquet")
