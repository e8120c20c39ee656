"""ZooKeeper's transaction log, decoded: every version of every znode, with the transaction that made it.

Watches miss states; the log does not. Format (org.apache.zookeeper.server.persistence.FileTxnLog, jute): a header of
magic `ZKLG`, version, database id; then entries of Adler-32, length, body and the byte `B`, until a zero length
(files are preallocated). A body is client id (session), cxid, zxid, time, type, then the record; a digest may follow.
Ephemeral znodes go with their session's end, whether the close transaction lists them or not; which these are, one
server's log may not say (checkers/evidence/zk_ensemble.py).
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

_MAGIC = b"ZKLG"
_ENTRY = struct.Struct(">qi")
_HEADER = struct.Struct(">qiqqi")
_INT = struct.Struct(">i")
_PREALLOCATED = bytes(64)
_SNAPSHOT = re.compile(r"snapshot\.([0-9a-f]{1,16})(?:\.\w+)?")

_CREATE, _DELETE, _SET_DATA, _MULTI, _ERROR = 1, 2, 5, 14, -1
_CREATE2, _CREATE_CONTAINER, _DELETE_CONTAINER, _CREATE_TTL = 15, 19, 20, 21
_CLOSE_SESSION = -11
_CREATES = frozenset({_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL})
_DELETES = frozenset({_DELETE, _DELETE_CONTAINER})


class Change(NamedTuple):
    """One version of one znode. op: create, set or delete; position orders changes of one transaction.

    In the log of one server also the end of a session, with which its ephemeral znodes go: `close`, without a path.
    """

    zxid: int
    position: int
    time_ms: int
    session: int
    op: str
    path: str
    version: int | None
    data: str | None
    ephemeral: bool = False


@dataclass(slots=True)
class TxnLog:
    """What one server's log files hold. zxids: of every transaction, also of those that changed no znode. unread: why
    some of its files cannot be read to their end. snapshots: of each snapshot, the last transaction that it holds.
    epoch: the last one whose leader it was, or had followed; None where it does not say, as a server alone does not.
    """

    changes: list[Change] = field(default_factory=list)
    zxids: list[int] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    epoch: int | None = None

    @property
    def problems(self) -> list[str]:
        """Why it does not have every transaction."""
        return [*self.unread, *gaps(self.zxids)]


class _Reader:
    """Jute's binary form over one transaction body."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def int32(self) -> int:
        value: int = _INT.unpack_from(self.body, self.at)[0]
        self.at += 4
        return value

    def buffer(self) -> bytes | None:
        length = self.int32()
        if length < 0:
            return None
        if self.at + length > len(self.body):
            raise ValueError(f"a field of {length} bytes runs past the end of its transaction")
        piece = self.body[self.at : self.at + length]
        self.at += length
        return piece

    def text(self) -> str:
        return (self.buffer() or b"").decode("utf-8", "replace")

    def boolean(self) -> bool:
        self.at += 1
        return self.body[self.at - 1] != 0

    def skip_acl(self) -> None:
        for _ in range(self.int32()):
            self.int32()
            self.buffer()
            self.buffer()


def read_log_folder(folder: Path) -> TxnLog:
    """All `log.*` files of a `version-2` folder, in zxid order; of snapshots their names; the epoch."""
    log = TxnLog(epoch=_epoch_in(folder / "currentEpoch"))
    names = [_SNAPSHOT.fullmatch(path.name) for path in folder.glob("snapshot.*")]
    log.snapshots = sorted(int(name[1], 16) for name in names if name is not None)
    files = sorted(folder.glob("log.*"), key=lambda path: int(path.suffix[1:], 16))
    if not files:
        log.unread.append(f"{folder.name}: no transaction log")
    for path in files:
        try:
            for body in _entries(path):
                _apply(body, log)
        except (ValueError, struct.error, IndexError) as error:
            log.unread.append(f"{path.name}: {error}")
    return log


def _epoch_in(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None
    return int(text) if re.fullmatch(r"\d{1,10}", text) else None


def gaps(zxids: list[int]) -> list[str]:
    """Reasons why the transactions are not all there: each epoch counts from 1 without a gap."""
    problems: list[str] = []
    previous = None
    for zxid in sorted(set(zxids)):
        epoch, counter = zxid >> 32, zxid & 0xFFFFFFFF
        if previous is None or epoch != previous >> 32:
            expected = 1
        else:
            expected = (previous & 0xFFFFFFFF) + 1
        # A new epoch's counter may begin at 0 with the leader's own proposal.
        if counter not in (expected, expected - 1) or (counter == expected - 1 and expected != 1):
            problems.append(f"transactions are missing before zxid 0x{zxid:x}")
        previous = zxid
    return problems


def _entries(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        header = file.read(16)
        if not header.strip(b"\0"):
            return
        if header[:4] != _MAGIC:
            raise ValueError(f"not a transaction log: begins with {header[:4]!r}")
        while True:
            head = file.read(_ENTRY.size)
            if len(head) < _ENTRY.size:
                return
            checksum, length = _ENTRY.unpack(head)
            if length == 0:
                _require_end(file)
                return
            if not 0 < length <= 64 << 20:
                raise ValueError(f"entry of {length} bytes at {file.tell()}")
            body = file.read(length)
            # The last entry may be torn: the server was killed in the middle of its write, before it responded.
            if len(body) < length:
                if body.endswith(_PREALLOCATED):
                    raise ValueError(f"entry of {length} bytes in a file that ends {len(body)} bytes behind its begin")
                return
            if file.read(1) != b"B":
                _require_end(file)
                return
            if zlib.adler32(body) != checksum:
                raise ValueError(f"checksum of the entry before {file.tell()} does not match")
            yield body


def _require_end(file: BinaryIO) -> None:
    """Files are preallocated with zeros, and written to their end in order. Raises ValueError where more follows."""
    while piece := file.read(1 << 20):
        if piece.strip(b"\0"):
            raise ValueError(f"something is written after the end of the log, before {file.tell()}")


def _apply(body: bytes, log: TxnLog) -> None:
    session, _cxid, zxid, time_ms, kind = _HEADER.unpack_from(body)
    log.zxids.append(zxid)
    reader = _Reader(body)
    reader.at = _HEADER.size
    position = 0

    def changed(op: str, path: str, version: int | None, data: str | None, *, ephemeral: bool = False) -> None:
        nonlocal position
        log.changes.append(Change(zxid, position, time_ms, session, op, path, version, data, ephemeral))
        position += 1

    def one(kind: int, reader: _Reader) -> None:
        if kind in _CREATES:
            path = reader.text()
            data = reader.buffer()
            reader.skip_acl()
            ephemeral = kind in (_CREATE, _CREATE2) and reader.boolean()
            text = None if data is None else data.decode("utf-8", "replace")
            changed("create", path, 0, text, ephemeral=ephemeral)
        elif kind in _DELETES:
            changed("delete", reader.text(), None, None)
        elif kind == _SET_DATA:
            path = reader.text()
            data = reader.buffer()
            changed("set", path, reader.int32(), None if data is None else data.decode("utf-8", "replace"))

    if kind == _MULTI:
        parts = [(reader.int32(), reader.buffer() or b"") for _ in range(reader.int32())]
        # It is all or nothing. Of one that failed ZooKeeper logs what stood before the operation at fault as it was
        # asked for, and errors from there on (PrepRequestProcessor; DataTree.processTxn takes all of it for failed).
        if all(part_kind != _ERROR for part_kind, _ in parts):
            for part_kind, part in parts:
                one(part_kind, _Reader(part))
    elif kind == _CLOSE_SESSION:
        changed("close", "", None, None)
    else:
        one(kind, reader)
