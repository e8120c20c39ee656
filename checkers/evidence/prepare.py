"""Binary evidence → Parquet, before Spark looks at it: segments, checkpoints, ZooKeeper's transactions.

Decides what is missing (a reason for unknown per source); judges nothing. Small evidence is decoded here, while the
JVM is still starting; segment files of more than `DRIVER_BYTES` in all are decoded by Spark's workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from checkers.evidence import recorded
from checkers.evidence.lives import checkpoints_of_lives, of_lives, segments_of_lives
from checkers.evidence.segment_tasks import Segment, decoded, log_dirs, segments_below
from checkers.evidence.segments import opened, read_segment
from checkers.evidence.zk_ensemble import merged
from checkers.evidence.zk_txnlog import TxnLog, read_log_folder
from checkers.history import schema
from checkers.history.run_info import RunInfo
from checkers.spark.places import Place, Stored, is_file, is_folder, put, remove, sizes_below
from checkers.spark.tables import read_table, write_table

_PIECE = "part-0.parquet"

DRIVER_BYTES = 64_000_000
"""Of segment files, all nodes together: so much is decoded in about the time that Spark takes to start."""

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

    segments: list[Segment] = field(default_factory=list)
    """Still to be decoded by Spark; empty when `batches` is written."""
    event_files: list[tuple[str, Place]] = field(default_factory=list)
    missing_evidence: dict[str, list[str]] = field(default_factory=dict)
    evidence_nodes: list[str] = field(default_factory=list)
    segment_nodes: list[str] = field(default_factory=list)
    """Nodes whose log folders are there, be it in part, and are what was recorded."""
    unnamed: set[str] = field(default_factory=set)
    """Topics that are made anew, of which some folder does not say the life."""

    def note_missing(self, source: str, text: str) -> None:
        self.missing_evidence.setdefault(source, []).append(text)


def prepare(run_dir: Path, info: RunInfo, whole: Place | None = None) -> Prepared:
    """Decode what needs no Spark, under parquet; find what is not there.

    whole: the run's folder, where `run_dir` is a copy of it that may lack the history, event logs, and segments that
    are for Spark's workers.
    """
    home = whole or run_dir
    prepared = Prepared()
    parquet = home / "parquet"
    altered = _note_changed(home, info, prepared)
    _prepare_zookeeper(run_dir, info, prepared, parquet)
    checkpoints: list[dict[str, Any]] = []
    if not info.brokers:
        for source in ("events", "segments"):
            prepared.note_missing(source, "run.json names no broker node")
    for node in info.brokers:
        root = home / "evidence" / node.name
        if is_folder(root):
            prepared.evidence_nodes.append(node.name)
        events = root / "events.jsonl"
        if is_file(events):
            prepared.event_files.append((node.name, events))
        else:
            prepared.note_missing("events", f"no event log of {node.name}")
        if not is_folder(root / "data"):
            prepared.note_missing("segments", f"no log folders of {node.name}")
            continue
        if node.name not in altered:
            prepared.segment_nodes.append(node.name)
        sizes = sizes_below(root)
        here = run_dir / "evidence"
        segments = segments_of_lives(segments_below(node.name, sizes), info.remade, here)
        prepared.unnamed |= {one.partition.rpartition("-")[0] for one in segments} & set(info.remade)
        prepared.segments += segments
        for folder in log_dirs(sizes):
            checkpoints += checkpoints_of_lives(node.name, here / node.name / folder, info.remade)
    _write(parquet / "checkpoints", checkpoints, _CHECKPOINT)
    if sum(one.size for one in prepared.segments) <= DRIVER_BYTES:
        _write(parquet / "batches", list(decoded_here(run_dir / "evidence", prepared.segments)), _BATCH)
        prepared.segments = []
    return prepared


def decoded_here(evidence: Path, segments: Sequence[Segment]) -> Iterator[dict[str, Any]]:
    """Rows of schema.BATCH of all segments below `evidence`, partition by partition in the order of offsets."""
    for one in segments:
        with opened(evidence / one.name) as data:
            yield from read_segment(one.node, one.partition, one.file, data, one.last_file)


def _note_changed(run_dir: Place, info: RunInfo, prepared: Prepared) -> list[str]:
    """What is not as it was recorded counts as missing; the nodes of which something is not."""
    history, nodes = recorded.changed(run_dir, info)
    if history:
        prepared.note_missing("history", "history.jsonl is not what was recorded: its SHA-256 differs from run.json's")
    zookeepers = {node.name for node in info.zookeepers}
    for node in nodes:
        for source in ("zookeeper",) if node in zookeepers else ("events", "segments"):
            prepared.note_missing(source, f"the evidence of {node} is not what was recorded: its SHA-256 differs")
    return nodes


def batches_table(spark: SparkSession, run_dir: Place, prepared: Prepared) -> DataFrame:
    """schema.BATCH of all replicas, as Parquet."""
    parquet = run_dir / "parquet" / "batches"
    if prepared.segments:
        write_table(decoded(spark, prepared.segments, run_dir / "evidence"), parquet, pieces=True)
    return read_table(spark, schema.BATCH, parquet)


def _prepare_zookeeper(run_dir: Path, info: RunInfo, prepared: Prepared, parquet: Place) -> None:
    """One table of the changes of all servers; a transaction that several servers logged stands once."""
    logs: dict[str, TxnLog] = {}
    absent: list[str] = []
    if not info.zookeepers:
        absent.append("run.json names no ZooKeeper node, so there is no transaction log")
    for node in info.zookeepers:
        folder = run_dir / "evidence" / node.name / "zookeeper" / "version-2"
        if not folder.is_dir():
            absent.append(f"no transaction log of {node.name}")
            continue
        prepared.evidence_nodes.append(node.name)
        logs[node.name] = read_log_folder(folder)
    ordered, problems = merged(logs)
    # What fewer have may end long before what the others committed.
    if problems or 2 * len(logs) <= len(info.zookeepers):
        for problem in [*absent, *problems]:
            prepared.note_missing("zookeeper", problem)
    named = of_lives([change for _, change in ordered], info.remade)
    rows = [{"node": node, **change._asdict()} for (node, _), change in zip(ordered, named, strict=True)]
    _write(parquet / "znodes", rows, _ZNODE)


def _write(folder: Place, rows: Sequence[dict[str, Any]], kind: pa.Schema) -> None:
    remove(folder)
    table = pa.Table.from_pylist(list(rows), schema=kind)
    if isinstance(folder, Stored):
        with TemporaryDirectory(prefix="highwater-table-") as here:
            pq.write_table(table, Path(here) / _PIECE)
            put(Path(here) / _PIECE, folder / _PIECE)
        return
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / _PIECE)
