"""Evidence files as the nodes leave them, written from a model: segments, checkpoints, event logs, ZooKeeper's log.

The encoders here share nothing with the broker or with the checkers' decoders.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import crc32c

from tests.support.model_cluster import ModelCluster


def record_value(value: int, partition: str) -> bytes:
    """The harness's record value (docs/history-format.md)."""
    head = f"{value}|{partition}"
    return f"{head}|{hashlib.sha256(head.encode()).hexdigest()[:16]}|pad".encode()


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def batch(base: int, epoch: int, values: Sequence[bytes], *, gzip: bool = False) -> bytes:
    """One record batch v2."""
    records = b""
    for nth, value in enumerate(values):
        body = b"\0" + _varint(0) + _varint(nth) + _varint(-1) + _varint(len(value)) + value + _varint(0)
        records += _varint(len(body)) + body
    if gzip:
        packer = zlib.compressobj(wbits=31)
        records = packer.compress(records) + packer.flush()
    tail = struct.pack(">hiqqqhii", 1 if gzip else 0, len(values) - 1, 0, 0, -1, -1, -1, len(values)) + records
    length = 4 + 1 + 4 + len(tail)
    return struct.pack(">qiibI", base, length, epoch, 2, crc32c.crc32c(tail)) + tail


def write_replica(folder: Path, log: Sequence[tuple[int, int]]) -> None:
    """One partition folder: a batch per record, and the epoch file."""
    folder.mkdir(parents=True)
    data = b"".join(batch(at, epoch, [record_value(value, folder.name)]) for at, (epoch, value) in enumerate(log))
    (folder / f"{0:020d}.log").write_bytes(data)
    starts: dict[int, int] = {}
    for at, (epoch, _) in enumerate(log):
        starts.setdefault(epoch, at)
    lines = [f"{epoch} {start}" for epoch, start in sorted(starts.items())]
    (folder / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


def write_checkpoint(path: Path, offsets: Mapping[tuple[str, int], int]) -> None:
    lines = [f"{topic} {number} {offset}" for (topic, number), offset in sorted(offsets.items())]
    path.write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


# -- ZooKeeper's transaction log -----------------------------------------------------------------------------------


def _text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">i", -1)
    raw = value.encode()
    return struct.pack(">i", len(raw)) + raw


def create_body(path: str, data: str | None, *, ephemeral: bool = False) -> bytes:
    acl = struct.pack(">ii", 1, 31) + _text("world") + _text("anyone")
    return _text(path) + _text(data) + acl + struct.pack(">?i", ephemeral, 0)


def set_body(path: str, data: str | None, version: int) -> bytes:
    return _text(path) + _text(data) + struct.pack(">i", version)


def transaction(zxid: int, kind: int, body: bytes, *, session: int = 7, time_ms: int = 0) -> bytes:
    return struct.pack(">qiqqi", session, 0, zxid, time_ms, kind) + body


def multi_body(parts: Iterable[tuple[int, bytes]]) -> bytes:
    listed = list(parts)
    return struct.pack(">i", len(listed)) + b"".join(struct.pack(">ii", kind, len(b)) + b for kind, b in listed)


def txn_log(transactions: Iterable[bytes]) -> bytes:
    """A whole log file, preallocated as ZooKeeper does."""
    out = b"ZKLG" + struct.pack(">iq", 2, 0)
    for body in transactions:
        out += struct.pack(">qi", zlib.adler32(body), len(body)) + body + b"B"
    return out + bytes(1024)


def znode_transaction(row: Mapping[str, Any]) -> bytes:
    if row["op"] == "create":
        kind, body = 1, create_body(row["path"], row["data"])
    elif row["op"] == "set":
        kind, body = 5, set_body(row["path"], row["data"], row["version"])
    else:
        kind, body = 2, _text(row["path"])
    return transaction(row["zxid"], kind, body, session=row["session"], time_ms=row["time_ms"])


# -- a whole run ---------------------------------------------------------------------------------------------------


def _all_copied(model: ModelCluster, nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The model's history, with a line for each node that its evidence was copied."""
    lines = list(model.story.lines)
    copied = next(line for line in lines if line["f"] == "evidence")
    for node in nodes:
        if node["name"] != copied["node"]:
            lines.append({**copied, "node": node["name"], "index": len(lines), "time_ns": lines[-1]["time_ns"]})
    return lines


def write_run(folder: Path, model: ModelCluster, **run: Any) -> Path:
    """run.json, history and evidence of a model, as the harness leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes: list[dict[str, Any]] = [
        {"name": model.name(b), "role": "broker", "broker_id": b, "address": "127.0.0.1"} for b in model.brokers
    ]
    nodes.append({"name": "zk1", "role": "zookeeper", "broker_id": None, "address": "127.0.0.1"})
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in _all_copied(model, nodes)))
    described: dict[str, Any] = {
        "schema": 1,
        "name": "model",
        "seed": 1,
        "origin_monotonic_ns": 0,
        "origin_wall_ns": 0,
        "system": {"kind": "highwater", "event_log": True, "settings": {}},
        "nodes": nodes,
        "topic": {
            "name": model.topic,
            "partitions": len(model.partitions),
            "replication_factor": 3,
            "min_insync_replicas": model.min_isr,
            "unclean_leader_election": False,
        },
        "workload": {"acks": "all"},
        "checks": {},
        "scripted": True,
        "aborted": None,
        "finished": True,
    }
    (folder / "run.json").write_text(json.dumps({**described, **run}))
    evidence = folder / "evidence"
    for broker in model.brokers:
        root = evidence / model.name(broker)
        data = root / "data"
        data.mkdir(parents=True)
        for p in model.partitions:
            write_replica(data / p.name, p.logs[broker])
        marks = {(model.topic, p.number): min(p.hw[broker], len(p.logs[broker])) for p in model.partitions}
        write_checkpoint(data / "replication-offset-checkpoint", marks)
        lines = [{k: v for k, v in event.items() if k != "node"} for event in model.events if event["b"] == broker]
        (root / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = evidence / "zk1" / "zookeeper" / "version-2"
    log.mkdir(parents=True)
    (log / "log.1").write_bytes(txn_log(znode_transaction(row) for row in model.znodes))
    return folder
