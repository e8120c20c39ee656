"""A run's folder in memory, as one record's life reads it."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from broker.wire.control_records import EndOfTransaction, marker
from broker.wire.records import NewRecord, encode_batch
from harness.report.life.files import RunFiles
from tests.support.evidence_files import create_body, multi_body, record_value, set_body, transaction, txn_log

STATE = "/brokers/topics/hw/partitions/0/state"


def run_files(contents: Mapping[str, bytes]) -> RunFiles:
    """path below the run's folder → content."""

    def opened(parts: Sequence[str]) -> BinaryIO:
        path = "/".join(parts)
        if path not in contents:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return io.BytesIO(contents[path])

    def names(parts: Sequence[str]) -> list[str]:
        below = "/".join(parts) + "/"
        found = sorted({path[len(below) :].partition("/")[0] for path in contents if path.startswith(below)})
        if not found:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", below)
        return found

    return RunFiles(opened, names)


def state(leader: int, epoch: int, isr: Sequence[int]) -> str:
    """The content of a partition's state znode."""
    return json.dumps({"version": 1, "leader": leader, "leader_epoch": epoch, "controller_epoch": 1, "isr": list(isr)})


def created(zxid: int, data: str, time_ms: int = 0, path: str = STATE) -> bytes:
    return transaction(zxid, 1, create_body(path, data), time_ms=time_ms)


def changed(zxid: int, number: int, data: str, time_ms: int = 0, path: str = STATE) -> bytes:
    return transaction(zxid, 5, set_body(path, data, number), time_ms=time_ms)


def in_one(zxid: int, parts: Sequence[tuple[int, bytes]], time_ms: int = 0) -> bytes:
    """A multi."""
    return transaction(zxid, 14, multi_body(parts), time_ms=time_ms)


def zookeeper(*transactions: bytes, node: str = "zk1") -> dict[str, bytes]:
    """The log of one ZooKeeper node, as part of a run's folder."""
    return {f"evidence/{node}/zookeeper/version-2/log.1": txn_log(transactions)}


def sent(base: int, epoch: int, value: int, *, producer: int = -1) -> bytes:
    """A batch of one record of hw-0; producer: its transactional producer's id."""
    return encode_batch(
        [NewRecord(None, record_value(value, "hw-0"))],
        timestamps=0,
        base_offset=base,
        leader_epoch=epoch,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        transactional=producer >= 0,
    )


def ended(base: int, epoch: int, producer: int, *, committed: bool) -> bytes:
    """A transaction's marker."""
    return encode_batch(
        [marker(EndOfTransaction(committed, 0))],
        timestamps=0,
        base_offset=base,
        leader_epoch=epoch,
        producer_id=producer,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def replica(
    node: str, *batches: bytes, epochs: str | None = None, log_dir: str = "", first: int = 0
) -> dict[str, bytes]:
    """A node's replica of hw-0, as part of a run's folder. epochs: the lines of its leader-epoch-checkpoint."""
    folder = f"evidence/{node}/data/{log_dir}hw-0"
    made = {f"{folder}/{first:020d}.log": b"".join(batches)}
    if epochs is not None:
        made[f"{folder}/leader-epoch-checkpoint"] = checkpoint(*epochs.splitlines())
    return made


def checkpoint(*entries: str) -> bytes:
    return "".join(f"{line}\n" for line in ("0", str(len(entries)), *entries)).encode()


def history(*lines: Mapping[str, Any]) -> dict[str, bytes]:
    return {"history.jsonl": "".join(json.dumps(line) + "\n" for line in lines).encode()}


def run(*, brokers: int = 3, **changes: Any) -> dict[str, Any]:
    """run.json of a cluster without event logs."""
    nodes = [{"name": f"n{n}", "role": "broker", "broker_id": n} for n in range(1, brokers + 1)]
    return {
        "origin_monotonic_ns": 0,
        "origin_wall_ns": 0,
        "finished": True,
        "system": {"kind": "kafka", "event_log": False},
        "nodes": [*nodes, {"name": "zk1", "role": "zookeeper", "broker_id": None}],
        "topic": {"name": "hw", "partitions": 1, "config": {}},
        **changes,
    }
