"""Many small histories through one Spark pass: each in a topic of its own, judged as if it were a run of its own."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from checkers.admin.families import administration
from checkers.allowances.allowances import excuse_unclean
from checkers.applications.families import applications
from checkers.black_box.facts import build_facts
from checkers.black_box.families import black_box, of_imported
from checkers.black_box.followers import of_followers
from checkers.compaction.families import compaction
from checkers.coverage.compacted import UNFIT
from checkers.coverage.queries import leader_changes
from checkers.evidence.event_names import beyond
from checkers.evidence.events import sound
from checkers.evidence.timeline import build_evidence
from checkers.evidence.znodes import znode_tables
from checkers.groups.families import of_groups
from checkers.history import schema
from checkers.history.faults import Interruption, faults_of
from checkers.history.load import load_history
from checkers.history.remade import ended_lives
from checkers.history.retention import Expiry
from checkers.history.run_info import NodeInfo, RunInfo
from checkers.topics.families import remade_topics
from checkers.transactions.families import transactions as of_transactions
from checkers.verdicts.administration import ADMIN, REMADE
from checkers.verdicts.catalogue import (
    ALL,
    APPLICATIONS,
    COMPACTION,
    DELETIONS,
    FOLLOWERS,
    GROUPS,
    LOOKUPS,
)
from checkers.verdicts.jobs import collect_families
from checkers.verdicts.spec import Spec
from checkers.verdicts.transactions import CYCLES, TRANSACTIONS
from checkers.verdicts.verdict import CheckResult, Row, judge
from checkers.white_box.families import white_box
from tests.support.histories import OUT, apart, merged, write_history
from tests.support.model_cluster import ModelCluster
from tests.support.run_info import run_info

TABLES = {
    "events": schema.EVENTS,
    "znodes": schema.ZNODE,
    "batches": schema.BATCH,
    "checkpoints": schema.CHECKPOINT,
}


@dataclass
class Case:
    """One small run: its history lines and the rows of its evidence tables. partitions: what must have been seen.
    truncation: by what its brokers were set to cut their logs, where that is known.
    """

    history: list[dict[str, Any]]
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    partitions: int = 1
    truncation: str | None = None


def case_of(model: ModelCluster) -> Case:
    """A model's run as table rows."""
    return Case(
        model.story.lines,
        {
            "events": [{**event, "t_ns": event["m"]} for event in model.events],
            "znodes": [dict(row) for row in model.znodes],
            "batches": [row for p in model.partitions for broker in p.replicas for row in _batches(model, p, broker)],
            "checkpoints": [row for p in model.partitions for broker in p.replicas for row in _marks(model, p, broker)],
        },
        len(model.partitions),
    )


def _batches(model: ModelCluster, p: Any, broker: int) -> list[dict[str, Any]]:
    return [
        {
            "node": model.name(broker),
            "p": p.name,
            "file": f"{0:020d}.log",
            "file_position": 70 * at,
            "base": at,
            "last": at,
            "epoch": epoch,
            "producer_id": -1,
            "producer_epoch": -1,
            "base_sequence": -1,
            "control": False,
            "records": 1,
            "crc_ok": True,
            "digest": f"{epoch}:{value}",
            "values": [value],
            "problem": None,
        }
        for at, (epoch, value) in enumerate(p.logs[broker])
    ]


def _marks(model: ModelCluster, p: Any, broker: int) -> list[dict[str, Any]]:
    starts: dict[int, int] = {}
    for at, (epoch, _) in enumerate(p.logs[broker]):
        starts.setdefault(epoch, at)
    common = {"node": model.name(broker), "p": p.name, "problem": None}
    rows: list[dict[str, Any]] = [
        {**common, "kind": "epoch", "position": nth, "epoch": epoch, "offset": start}
        for nth, (epoch, start) in enumerate(sorted(starts.items()))
    ]
    mark = min(p.hw[broker], len(p.logs[broker]))
    return [*rows, {**common, "kind": "high-watermark", "position": 0, "epoch": None, "offset": mark}]


def judge_cases(
    spark: SparkSession,
    folder: Path,
    cases: Mapping[str, Case],
    *,
    unclean: bool = False,
    expiry: Expiry | None = None,
    transactions: bool = False,
    interruptions: Sequence[Interruption] = (),
    in_turn: Collection[str] = (),
    imported: bool = False,
    evidence_of_nodes: bool = True,
) -> dict[str, dict[str, CheckResult]]:
    """Topic → checker → result, all cases in one pass. folder: scratch space. transactions: with their checkers.
    interruptions: of brokers, in run time, of all cases. in_turn: cases that begin when all before them are over.
    imported: with the rules of histories from elsewhere. evidence_of_nodes: with the rules of what nodes held, where
    a case has any.
    """
    with pyspark_sockets():
        rows = _rows(
            spark,
            folder,
            cases,
            unclean=unclean,
            expiry=expiry,
            transactions=transactions,
            interruptions=interruptions,
            in_turn=in_turn,
            imported=imported,
            evidence_of_nodes=evidence_of_nodes,
        )
    specs = [spec for spec in ALL if transactions or spec not in (*TRANSACTIONS, *CYCLES)]
    return {topic: _judge_one(topic, case, rows, specs) for topic, case in cases.items()}


def _rows(
    spark: SparkSession,
    folder: Path,
    cases: Mapping[str, Case],
    *,
    unclean: bool,
    expiry: Expiry | None,
    transactions: bool,
    interruptions: Sequence[Interruption],
    in_turn: Collection[str],
    imported: bool,
    evidence_of_nodes: bool,
) -> list[Row]:
    lines = merged({topic: case.history for topic, case in cases.items()}, in_turn)
    history, health = load_history(spark, write_history(folder / "history.jsonl", lines), folder / "parquet")
    assert not health.problems, health.problems
    tables = {name: _table(spark, folder, name, cases) for name in TABLES}
    info = _info(cases, unclean=unclean)
    events = sound(tables["events"])
    evidence = build_evidence(
        info,
        history,
        events,
        znode_tables(tables["znodes"]),
        tables["batches"],
        tables["checkpoints"],
        sorted({row["node"] for case in cases.values() for row in case.tables.get("batches", ())}),
        expiry,
    )
    changes = leader_changes(history, evidence)
    facts = build_facts(
        history,
        changes,
        expiry=expiry,
        unclean=evidence.unclean,
        events=events,
        interruptions=interruptions,
        lookups=True,
        resends=True,
        batches=evidence.batches,
        ended=ended_lives(history.coordination) if any(_remakes(case) for case in cases.values()) else None,
    )
    families = black_box(facts)
    if evidence_of_nodes and any(case.tables for case in cases.values()):
        families |= white_box(evidence, tables["events"], interruptions)
    if imported:
        families |= of_imported(facts)
    if any(_has_members(case) for case in cases.values()):
        families |= of_groups(history)
    if transactions:
        families |= of_transactions(facts, cycles=True)
    if any(_has_application(case) for case in cases.values()):
        families |= applications(facts)
    if any(_has_keys(case) for case in cases.values()):
        families |= compaction(facts, info.tombstones_ms)
    faults = faults_of([{"error": None, **line} for line in lines if line["kind"] == "nemesis"])
    if any(_has_administrators(case) for case in cases.values()):
        families |= administration(history, faults, one_server=True)
    if any(_remakes(case) for case in cases.values()):
        families |= remade_topics(history, faults, over_when_answered=True)
    if any(_has_followers(case) for case in cases.values()):
        families |= of_followers(history, faults)
    return collect_families(families, witnesses=1000, excuse=excuse_unclean(evidence.unclean))


def _judge_one(topic: str, case: Case, rows: Sequence[Row], specs: Sequence[Spec]) -> dict[str, CheckResult]:
    partitions = [f"{topic}-{number}" for number in range(case.partitions)]
    # What is found on the topic that processors write to counts, too.
    places = {topic, *partitions, *(f"{topic}{OUT}-{number}" for number in range(case.partitions))}
    nodes = {event["node"] for event in case.tables.get("events", ())}
    mine = [
        row
        for row in rows
        if row.p in places
        or (row.p or "").startswith(f"{topic}~")
        or (row.p is None and any(f"{node}," in row.detail for node in nodes))
    ]
    judged = [spec for spec in specs if spec not in GROUPS or _has_members(case)]
    judged = [spec for spec in judged if spec not in APPLICATIONS or _has_application(case)]
    judged = [spec for spec in judged if spec not in COMPACTION or _has_keys(case)]
    judged = [spec for spec in judged if spec not in ADMIN or _has_administrators(case)]
    judged = [spec for spec in judged if spec not in REMADE or _remakes(case)]
    judged = [spec for spec in judged if spec not in FOLLOWERS or _has_followers(case)]
    judged = [spec for spec in judged if spec not in DELETIONS or _has_deletions(case)]
    judged = [spec for spec in judged if spec not in LOOKUPS or _has_lookups(case)]
    judged = [spec for spec in judged if not (_has_keys(case) and spec.name in UNFIT)]
    return {spec.name: judge(spec, [row for row in mine if row.checker == spec.name], partitions) for spec in judged}


def _has_members(case: Case) -> bool:
    """What groups alone have is judged only where there is one; that of transactions has no members."""
    of_transactions = any(line.get("f") == "end_txn" for line in case.history)
    return not of_transactions and any(line.get("group") is not None for line in case.history)


def _has_application(case: Case) -> bool:
    """Whether an application of a real client processes anything in it."""
    return any(line.get("f") == "process" for line in case.history)


def _has_followers(case: Case) -> bool:
    """Whether a consumer reads from followers in it."""
    return any(line.get("reader") == "follower" for line in case.history)


def _has_administrators(case: Case) -> bool:
    """Whether anybody counts partitions in it."""
    return any(line.get("f") == "count_partitions" for line in case.history)


def _remakes(case: Case) -> bool:
    """Whether anybody makes topics in it."""
    return any(line.get("f") == "create_topic" for line in case.history)


def _has_deletions(case: Case) -> bool:
    """Whether a client deletes records in it."""
    return any(line.get("f") == "delete_records" for line in case.history)


def _has_lookups(case: Case) -> bool:
    """Whether a client looks an offset up by time in it."""
    return any(line.get("f") == "list_offsets" and line.get("timestamp", -1) >= 0 for line in case.history)


def _has_keys(case: Case) -> bool:
    """Whether its topic is a compacted one."""
    return any("keys" in line for line in case.history)


def _table(spark: SparkSession, folder: Path, name: str, cases: Mapping[str, Case]) -> DataFrame:
    path = folder / f"{name}.jsonl"
    rows = [
        {**row, "values": apart(row["values"], number)} if row.get("values") else row
        for number, case in enumerate(cases.values())
        for row in case.tables.get(name, ())
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    frame = spark.read.schema(TABLES[name]).json(path.as_uri()).coalesce(1)
    return frame.withColumn("beyond", beyond()) if name == "events" else frame


def _info(cases: Mapping[str, Case], *, unclean: bool) -> RunInfo:
    nodes = sorted({(e["node"], e["b"]) for case in cases.values() for e in case.tables.get("events", ())})
    starts = [e["min_isr"] for case in cases.values() for e in case.tables.get("events", ()) if e["e"] == "start"]
    return run_info(
        partitions=tuple(f"{topic}-{n}" for topic, case in cases.items() for n in range(case.partitions)),
        # A run has one minimum: where unclean leaders write alone, the least of its models'.
        min_insync_replicas=min(starts) if unclean and starts else run_info().min_insync_replicas,
        unclean=unclean,
        nodes=tuple(NodeInfo(name, "broker", broker, 0) for name, broker in nodes),
        truncation={
            e["node"]: case.truncation
            for case in cases.values()
            if case.truncation is not None
            for e in case.tables.get("events", ())
        },
    )


@contextmanager
def pyspark_sockets() -> Iterator[None]:
    """pyspark leaves the socket of every `collect` to the garbage collector; its warning is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


def invalid(results: Mapping[str, CheckResult]) -> set[str]:
    return {name for name, result in results.items() if result.verdict == "invalid"}
