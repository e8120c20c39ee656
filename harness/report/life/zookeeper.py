"""Every version of one partition's state znode, out of ZooKeeper's transaction logs.

Decides which transactions changed it, and of a topic that was made anew which were of the life that is asked for:
those since its znode was created with that id, up to where it was created again. A decoder of its own: the lab imports
nothing of the checkers, and the files of a run that somebody sent are not believed, so that damage is said, not
raised. Format: FileTxnLog and jute of org.apache.zookeeper.server.persistence, as checkers/evidence/zk_txnlog.py
describes it. What a deposed leader of ZooKeeper's had logged and nobody committed, is left out: by the logs of those
who began the next epoch, as checkers/evidence/zk_ensemble.py says why.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import BinaryIO

from harness.report.life.files import RunFiles

_FILE_HEADER = 16
_ENTRY = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_INT = struct.Struct(">i")
_LONGEST = 64 << 20
_PREALLOCATED = bytes(64)
_CREATES = frozenset({1, 15, 19, 21})
_DELETES = frozenset({2, 20})
_SET_DATA, _MULTI, _ERROR = 5, 14, -1
_DAMAGE = (ValueError, TypeError, KeyError, RecursionError, struct.error)


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """One version of the znode. life: how often it had been created; leader: −1 where there is none; time_ms: of the
    wall clock of ZooKeeper's leader. deleted: the topic was deleted, and the rest is as it was last.
    """

    zxid: int
    position: int
    life: int
    number: int
    time_ms: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    deleted: bool = False


@dataclass(slots=True)
class Versions:
    """problems: sentences on what was not there, or could not be read."""

    found: list[Version] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


_Change = tuple[int, int | None, bytes | None]
"""time_ms; number of the version, None where the znode was deleted; its content."""
_Changes = dict[tuple[int, int], _Change]
"""By zxid and place in the transaction."""


def versions(files: RunFiles, nodes: Iterable[str], p: str) -> Versions:
    """Of a partition, by all ZooKeeper nodes together: what one lacks is no problem where another has everything."""
    whole_name, _, number = p.rpartition("-")
    topic, _, topic_id = whole_name.partition("~")
    of_topic = f"/brokers/topics/{topic}".encode()
    of_state = of_topic + f"/partitions/{number}/state".encode()
    changes: dict[bytes, _Changes] = {path: {} for path in ((of_topic, of_state) if topic_id else (of_state,))}
    logged: list[tuple[int, set[int]]] = []
    problems: list[str] = []
    whole = False
    for node in nodes:
        own, said = _of_node(files, node, changes)
        whole = whole or not (said or _first_gap(own))
        problems += said
        logged.append((files.zookeeper_epoch(node), own))
    zxids = set().union(*(own for _, own in logged))
    undone = _uncommitted(logged)
    changes = {path: {at: one for at, one in of.items() if at[0] not in undone} for path, of in changes.items()}
    told = Versions([], [] if whole else problems)
    gap = _first_gap(zxids)
    if gap is not None:
        told.problems.append(f"Transactions of ZooKeeper are missing before zxid {gap:#x}.")
    mine = changes[of_state]
    if topic_id and zxids:
        mine = _of_life(mine, changes[of_topic], topic_id)
        if not mine:
            told.problems.append(f"No state of {p} stands in ZooKeeper's transaction logs.")
    told.found = list(_read(mine, told.problems))
    return told


def _uncommitted(logged: Sequence[tuple[int, Set[int]]]) -> set[int]:
    """Transactions beyond the end of their epoch, which those have who logged the first of the next one, or, where the
    last epoch has none, were of it.

    logged: of each server its last epoch, and its transactions.
    """
    every = set().union(*(own for _, own in logged))
    firsts = {zxid for zxid in every if zxid & 0xFFFFFFFF == 1}
    newest = max((epoch for epoch, _ in logged), default=0)
    if newest << 32 > max(every, default=0):
        firsts.add(newest << 32 | 1)
    undone: set[int] = set()
    for first in firsts:
        begun = [own for epoch, own in logged if first in own or (first not in every and epoch == newest)]
        end = max((zxid for own in begun for zxid in own if zxid < first - 1), default=0)
        undone |= {zxid for zxid in every if end < zxid < first - 1}
    return undone


def _of_life(states: _Changes, of_topic: _Changes, topic_id: str) -> _Changes:
    """Changes of a state znode while the topic's znode had that id, from one creation of this to the next."""
    begins = [at for at, (_, number, _) in sorted(of_topic.items()) if number == 0]
    for since, until in zip(begins, [*begins[1:], None], strict=True):
        ids = [_id_in(data) for at, (_, _, data) in sorted(of_topic.items()) if _within(at, since, until)]
        if topic_id in ids:
            return {at: change for at, change in states.items() if _within(at, since, until)}
    return {}


def _within(at: tuple[int, int], since: tuple[int, int], until: tuple[int, int] | None) -> bool:
    return since <= at and (until is None or at < until)


def _id_in(data: bytes | None) -> str | None:
    try:
        return str(json.loads(data or b"")["topic_id"])
    except _DAMAGE:
        return None


def _of_node(files: RunFiles, node: str, changes: dict[bytes, _Changes]) -> tuple[set[int], list[str]]:
    """(its transactions, what is wrong with its logs); what they did to the znodes goes into `changes`, by path."""
    names = files.transaction_logs(node)
    if not names:
        return set(), [f"No transaction log of {node}."]
    zxids: set[int] = set()
    problems: list[str] = []
    for name in names:
        try:
            with files.transaction_log(node, name) as file:
                for body in _entries(file):
                    zxids.add(_of_transaction(body, changes))
        except OSError as error:
            problems.append(f"{node}'s transaction log {name} cannot be read: {error.strerror or error}.")
        except _DAMAGE as error:
            problems.append(f"{node}'s transaction log {name} is damaged: {error}.")
    return zxids, problems


def _entries(file: BinaryIO) -> Iterator[bytes]:
    """Bodies of transactions. The last one may be torn, and files are preallocated with zeros."""
    header = file.read(_FILE_HEADER)
    if not header.strip(b"\0"):
        return
    if header[:4] != b"ZKLG":
        raise ValueError(f"it begins with {header[:4]!r}, not with b'ZKLG'")
    while len(head := file.read(_ENTRY.size)) == _ENTRY.size:
        checksum, length = _ENTRY.unpack(head)
        if length == 0:
            _require_end(file)
            return
        if not 0 < length <= _LONGEST:
            raise ValueError(f"a transaction of {length} bytes before byte {file.tell()}")
        body = file.read(length)
        if len(body) < length and body.endswith(_PREALLOCATED):
            raise ValueError(f"a transaction of {length} bytes runs past the end of the file")
        if len(body) < length or file.read(1) != b"B":
            _require_end(file)
            return
        if zlib.adler32(body) != checksum:
            raise ValueError(f"the checksum of the transaction before byte {file.tell()} is wrong")
        yield body


def _require_end(file: BinaryIO) -> None:
    """Raises ValueError where something is written from here on."""
    while piece := file.read(1 << 20):
        if piece.strip(b"\0"):
            raise ValueError(f"something is written behind its end, before byte {file.tell()}")


def _of_transaction(body: bytes, changes: dict[bytes, _Changes]) -> int:
    """Its zxid; what it did to the znodes goes into `changes`."""
    _session, _cxid, zxid, time_ms, kind = _HEADER.unpack_from(body)
    if not any(path in body for path in changes):
        return int(zxid)
    parts = [(kind, body[_HEADER.size :])]
    if kind == _MULTI:
        parts, at = [], _HEADER.size + _INT.size
        for _ in range(_INT.unpack_from(body, _HEADER.size)[0]):
            part_kind = _INT.unpack_from(body, at)[0]
            part, at = _field(body, at + _INT.size)
            parts.append((part_kind, part or b""))
        if any(part_kind == _ERROR for part_kind, _ in parts):
            return int(zxid)  # Nothing of it was done, whatever stands before the operation at fault.
    for position, (part_kind, part) in enumerate(parts):
        if part_kind not in _CREATES | _DELETES | {_SET_DATA}:
            continue
        name, at = _field(part, 0)
        if name not in changes:
            continue
        if part_kind in _DELETES:
            changes[name][zxid, position] = time_ms, None, None
            continue
        data, at = _field(part, at)
        version = 0 if part_kind in _CREATES else _INT.unpack_from(part, at)[0]
        changes[name][zxid, position] = time_ms, version, data
    return int(zxid)


def _field(body: bytes, at: int) -> tuple[bytes | None, int]:
    """A field with its length before it, and where the next one begins."""
    length = _INT.unpack_from(body, at)[0]
    at += _INT.size
    if length < 0:
        return None, at
    if at + length > len(body):
        raise ValueError(f"a field of {length} bytes runs past the end of its transaction")
    return body[at : at + length], at + length


def _first_gap(zxids: set[int]) -> int | None:
    """The first transaction before which one is missing: each epoch of ZooKeeper counts from 1, or from 0."""
    previous: int | None = None
    for zxid in sorted(zxids):
        if previous is None or zxid >> 32 != previous >> 32:
            if zxid & 0xFFFFFFFF > 1:
                return zxid
        elif zxid != previous + 1:
            return zxid
        previous = zxid
    return None


def _read(changes: _Changes, problems: list[str]) -> Iterator[Version]:
    life, last = 0, None
    for (zxid, position), (time_ms, number, data) in sorted(changes.items()):
        if number is None:
            if last is not None:
                yield Version(
                    zxid, position, life, last.number, time_ms, last.leader, last.leader_epoch, last.isr, True
                )
            continue
        life += number == 0
        try:
            state = json.loads(data or b"")
            isr = tuple(int(broker) for broker in state["isr"])
            leader, epoch = int(state["leader"]), int(state["leader_epoch"])
        except _DAMAGE:
            problems.append(f"Version {number} of the state in ZooKeeper (zxid {zxid:#x}) cannot be read.")
            continue
        last = Version(zxid, position, life, number, time_ms, leader, epoch, isr)
        yield last
