"""Small text files that are replaced whole: offset checkpoints, leader epochs, partition.metadata, meta.properties.

A reader sees the old content or the new, never a mixture: temporary file, fsync, rename, fsync of the folder.
Formats are Kafka's. This module knows files, not logs; a malformed file is a ValueError that names it.
Source: CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile, PartitionMetadataFile,
CleanShutdownFileHandler (KIP-966), MetaProperties version 0.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterable, Mapping

from broker.model.ids import Epoch, Offset, TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_VERSION = "0"
_OFFSET_ROW = re.compile(r"\s*([A-Za-z0-9._-]+)\s+([0-9]+)\s+(-?[0-9]+)\s*")
_EPOCH_ROW = re.compile(r"([0-9]+) ([0-9]+)")
_TOPIC_ID = re.compile("[A-Za-z0-9_-]{22}")


def fsync_dir(path: str) -> None:
    """Make names created, renamed or removed in this folder survive a power failure."""
    _fsync(path, os.O_DIRECTORY)


def fsync_file(path: str) -> None:
    """Make a file's content survive a power failure. Raises OSError."""
    _fsync(path, 0)


def _fsync(path: str, flags: int) -> None:
    fd = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomically(path: str, text: str, sync: bool = True, temporary: str = "") -> None:
    """Replace a file's whole content. sync=False survives the process's death, not the machine's.

    temporary: the file that is written and renamed to path, by default `<path>.tmp`.
    """
    replace_file(path, text.encode(), sync, temporary)


def replace_file(path: str, content: bytes, sync: bool, temporary: str = "") -> None:
    """The same for bytes."""
    temporary = temporary or path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        data = memoryview(content)
        while data:
            data = data[os.write(fd, data) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if sync:
        fsync_dir(os.path.dirname(path))


class OrderedFile:
    """A file replaced from several threads such that an older content never overwrites a newer one."""

    __slots__ = ("_issued", "_lock", "_synced", "_temporary", "_written", "path")

    def __init__(self, path: str, temporary: str = "") -> None:
        """temporary: as in write_atomically, where others may replace the same file."""
        self.path = path
        self._temporary = temporary
        self._issued = 0
        self._written = 0
        self._synced = 0
        self._lock = threading.Lock()

    def ticket(self) -> int:
        """Place of the content that the caller holds now; take it on the loop's thread."""
        self._issued += 1
        return self._issued

    @property
    def settled(self) -> bool:
        """Whether the newest content is on disk for good."""
        return self._synced == self._issued

    def write(self, ticket: int, text: str, sync: bool = True) -> None:
        """Write unless content with a later ticket is there already (and, when sync, is durable)."""
        with self._lock:
            if ticket < self._written:
                if not sync or ticket <= self._synced:
                    return
                # The newer content is in the file but not yet durable, and the caller's promise covers the older.
                fsync_file(self.path)
                fsync_dir(os.path.dirname(self.path))
                self._synced = self._written
                return
            write_atomically(self.path, text, sync, self._temporary)
            self._written = ticket
            if sync:
                self._synced = ticket


def read_mark(path: str, most: int, if_empty: str) -> str:
    """What a mark with a text says, at most so many characters: "" without a file, if_empty where it is empty.

    Raises OSError.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(most).strip() or if_empty
    except FileNotFoundError:
        return ""


def format_rows(rows: Iterable[str]) -> str:
    """Version line, count line, then one row per line."""
    lines = list(rows)
    return "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"


def _read_lines(path: str) -> list[str] | None:
    """The lines after the header, as many as the header says; each may be malformed. None when there is no file.

    The last line must end with a newline: a power failure can leave a file torn within a number, and an epoch start of
    66 read as 6 would make followers truncate too far.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    if not text:
        raise ValueError(f"{path}: is empty")
    if not text.endswith("\n"):
        raise ValueError(f"{path}: its last line has no end: torn")
    lines = text[:-1].split("\n")
    if lines[0] != _VERSION:
        raise ValueError(f"{path}: version {lines[0]!r}, only {_VERSION} is known")
    rows = lines[2:]
    if len(lines) < 2 or lines[1] != str(len(rows)):
        raise ValueError(f"{path}: promises {lines[1] if len(lines) > 1 else 'no'} entries, holds {len(rows)}")
    return rows


def format_offsets(offsets: Mapping[TopicPartition, Offset]) -> str:
    """A checkpoint file of offsets by partition: a row `topic partition offset` each. Source: OffsetCheckpointFile."""
    return format_rows(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items())


def read_offsets(path: str, malformed: list[str] | None = None) -> dict[TopicPartition, Offset]:
    """A missing file is an empty one. Raises ValueError when malformed.

    malformed: gets the malformed lines, instead of a ValueError; the other lines of a complete file are good.
    """
    offsets: dict[TopicPartition, Offset] = {}
    for line in _read_lines(path) or ():
        found = _OFFSET_ROW.fullmatch(line)
        if found is not None:
            offsets[TopicPartition(found[1], int(found[2]))] = int(found[3])
        elif malformed is not None:
            malformed.append(line)
        else:
            raise ValueError(f"{path}: malformed line {line!r}")
    return offsets


def format_epochs(entries: Iterable[tuple[Epoch, Offset]]) -> str:
    """leader-epoch-checkpoint: a row `epoch start-offset` each. Source: LeaderEpochCheckpointFile."""
    return format_rows(f"{epoch} {start}" for epoch, start in entries)


def read_epochs(path: str) -> list[tuple[Epoch, Offset]] | None:
    """(epoch, start offset) in file order; None when there is no file. Raises ValueError when malformed.

    Rows are taken as they are written and no other way: a sign or a space in the place of a digit is damage.
    """
    lines = _read_lines(path)
    if lines is None:
        return None
    entries = []
    for line in lines:
        found = _EPOCH_ROW.fullmatch(line)
        if found is None:
            raise ValueError(f"{path}: malformed line {line!r}")
        entries.append((int(found[1]), int(found[2])))
    return entries


def format_partition_metadata(topic_id: str) -> str:
    """partition.metadata: the topic's id. Source: PartitionMetadataFile."""
    return f"version: 0\ntopic_id: {topic_id}"


def read_partition_metadata(path: str) -> str:
    """The topic id as Kafka prints it; "" when the file is missing or was emptied by a power failure."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not text") from None
    if not text.strip("\0 \n"):
        return ""
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    topic_id = fields.get("topic_id", "")
    if fields.get("version") != "0" or not _TOPIC_ID.fullmatch(topic_id):
        raise ValueError(f"{path}: expected 'version: 0' and 'topic_id: <22 of base64>', found {text[:80]!r}")
    return topic_id


def format_clean_shutdown(broker_epoch: int) -> str:
    """.kafka_cleanshutdown: the broker epoch of the run that ended (KIP-966). Source: CleanShutdownFileHandler."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))


def read_clean_shutdown(path: str) -> int | None:
    """Broker epoch in the mark of a clean stop, −1 when the mark says none; None when there is no mark."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    with contextlib.suppress(ValueError):
        content = json.loads(text)
        if isinstance(content, dict) and isinstance(content.get("brokerEpoch"), int):
            return int(content["brokerEpoch"])
    return -1


def read_properties(path: str) -> dict[str, str]:
    """meta.properties as pairs; empty when there is no file. Raises ValueError when it is not text."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not text") from None
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def format_properties(pairs: Mapping[str, str]) -> str:
    """A file of java.util.Properties, as meta.properties is one, in order of the names."""
    return "#\n" + "".join(f"{name}={value}\n" for name, value in sorted(pairs.items()))
