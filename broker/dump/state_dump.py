"""The small files beside the segments: producer snapshots, aborted transactions, and the text checkpoints.

Kafka's tool reads the first two; for the text files the lines are our own, each field with its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from broker.core.producers.snapshot import BadSnapshot, read_rows
from broker.dump.lines import AbortedTransaction, producer_line, transaction_line
from broker.dump.report import Report
from broker.log.files import checkpoints
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.indexes.aborted_txn import ENTRY, ENTRY_SIZE, ENTRY_VERSION


def dump_producers(path: str, report: Report) -> None:
    """A `.snapshot`. Raises OSError."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        rows = read_rows(data)
    except BadSnapshot as bad:
        report.problem(path, f"is no producer snapshot: {bad}")
        return
    for row in rows:
        report.line(producer_line(row))


def dump_transactions(path: str, report: Report) -> None:
    """A `.txnindex`. Raises OSError."""
    position = 0
    with open(path, "rb") as file:
        while data := file.read(ENTRY_SIZE):
            if len(data) < ENTRY_SIZE:
                report.problem(path, f"at position {position}: {len(data)} bytes, an entry has {ENTRY_SIZE}")
                return
            entry = AbortedTransaction(*ENTRY.unpack(data))
            if entry.version != ENTRY_VERSION:
                known = f"only {ENTRY_VERSION} is known"
                report.problem(path, f"at position {position}: version {entry.version}, {known}")
                return
            report.line(transaction_line(entry))
            position += ENTRY_SIZE


def _epochs(path: str) -> list[str]:
    return [f"epoch: {epoch} startOffset: {start}" for epoch, start in checkpoints.read_epochs(path) or []]


def _offsets(path: str) -> list[str]:
    found = checkpoints.read_offsets(path)
    return [f"topic: {tp.topic} partition: {tp.partition} offset: {offset}" for tp, offset in found.items()]


def _partition_metadata(path: str) -> list[str]:
    topic_id = checkpoints.read_partition_metadata(path)
    if not topic_id:
        raise ValueError(f"{path}: is empty, and should say the topic's id")
    return [f"version: 0 topicId: {topic_id}"]


_TEXTS: Mapping[str, Callable[[str], list[str]]] = {
    checkpoints.LEADER_EPOCHS: _epochs,
    checkpoints.RECOVERY_POINTS: _offsets,
    checkpoints.HIGH_WATERMARKS: _offsets,
    checkpoints.LOG_STARTS: _offsets,
    CLEANER_OFFSETS: _offsets,
    checkpoints.PARTITION_METADATA: _partition_metadata,
}

TEXT_FILES = frozenset(_TEXTS)


def dump_text(path: str, report: Report) -> None:
    """One of TEXT_FILES, which is there: its readers take a missing file for an empty one. Raises OSError."""
    try:
        lines = _TEXTS[os.path.basename(path)](path)
    except ValueError as error:
        report.problem(path, str(error).removeprefix(f"{path}: "))
        return
    for line in lines:
        report.line(line)
