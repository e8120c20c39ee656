"""What the copied files of each replica hold at one offset, in the end.

Decides the words for it. Reads batches as docs of Kafka's format have them (`broker.wire`); damage is said, not raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from broker.wire.control_records import marker_of
from broker.wire.record_batch import BatchHeader, CorruptBatch, check_crc, iter_batches
from broker.wire.records import Record, iter_records
from harness.report.life.files import ReplicaFiles, RunFiles

_VALUE = re.compile(rb"(\d{1,19})\|")


@dataclass(frozen=True, slots=True)
class Holding:
    """text: a sentence. kind: `record` (also one that the lab did not write), `marker`, `compacted` (its batch is there
    without it), `gap`, `below` (the log begins later), `beyond` (it ends before), `damaged`, `missing`.

    value: the number of the record that is there, None where none is, or it has none. epoch: leader epoch of its batch.
    marker: offset of the marker that ended its transaction.
    """

    node: str
    text: str
    kind: str
    value: int | None = None
    epoch: int | None = None
    marker: int | None = None


def holding(files: RunFiles, node: str, p: str, offset: int) -> Holding:
    """Of one node."""
    found = files.replica(node, p)
    if found is None:
        deleted = f" A folder of {p} that waited for its deletion is there." if files.is_deleted(node, p) else ""
        return Holding(node, f"{node}: no files of {p} were copied.{deleted}", "missing")
    try:
        segments = found.segments()
    except OSError as error:
        return Holding(node, f"{node}: its files of {p} cannot be read: {error.strerror or error}.", "missing")
    if not segments:
        return Holding(node, f"{node}: no files of {p} were copied.", "missing")
    first = int(segments[0].partition(".")[0])
    if offset < first:
        return Holding(node, f"{node}: its log begins at offset {first}.", "below")
    name = [one for one in segments if int(one.partition(".")[0]) <= offset][-1]
    end = int(name.partition(".")[0])
    try:
        view = memoryview(found.segment(name))
        for position, header in iter_batches(view, verify_crc=False):
            if header.base_offset <= offset <= header.last_offset:
                check_crc(view, position, header)
                batch = view[position : position + header.size]
                return _of_batch(found, node, offset, header, batch)
            if header.base_offset > offset:
                return Holding(
                    node,
                    f"{node}: nothing at offset {offset}; the batch after it begins at {header.base_offset}.",
                    "gap",
                )
            end = header.last_offset + 1
    except CorruptBatch as damage:
        return Holding(node, f"{node}: {name} is damaged: {damage}.", "damaged")
    except OSError as error:
        return Holding(node, f"{node}: {name} cannot be read: {error.strerror or error}.", "damaged")
    if name != segments[-1]:
        return Holding(node, f"{node}: nothing at offset {offset}; {name} ends at {end}.", "gap")
    return Holding(node, f"{node}: its log ends at offset {end}, before it.", "beyond")


def below_start(held: Holding, log_start: int | None, offset: int) -> Holding:
    """The same with its log start: what lies below is shown to nobody, though the file may hold it for a while."""
    if log_start is None or log_start <= offset or held.kind in ("below", "beyond", "missing"):
        return held
    text = f"{held.text.removesuffix('.')}; its log start is {log_start}, so that it is shown to nobody."
    return replace(held, text=text, kind="below")


def _of_batch(files: ReplicaFiles, node: str, offset: int, header: BatchHeader, batch: memoryview) -> Holding:
    epoch = header.partition_leader_epoch
    led = f"of leader epoch {epoch}"
    who = f"producer {header.producer_id} (producer epoch {header.producer_epoch})"
    if header.is_control:
        end = marker_of(header, batch)
        what = "a control record" if end is None else f"the {'commit' if end.committed else 'abort'} marker of {who}"
        return Holding(node, f"{node}: {what} at offset {offset}, {led}.", "marker", epoch=epoch)
    of, at = "", None
    if header.is_transactional:
        ended, at = _ended(files, offset, header)
        of = f", in a transaction of {who}, {ended}"
    record = next((one for one in iter_records(header, batch) if one.offset == offset), None)
    if record is None:
        text = f"{node}: a batch {led} whose record at offset {offset} was compacted away{of}."
        return Holding(node, text, "compacted", epoch=epoch)
    value = value_of(record)
    what = "a record that the lab did not write" if value is None else f"value {value}"
    return Holding(node, f"{node}: {what} at offset {offset}, {led}{of}.", "record", value, epoch, at)


def _ended(files: ReplicaFiles, offset: int, begun: BatchHeader) -> tuple[str, int | None]:
    """How this replica's log ends the transaction of a batch, and where. A producer has one transaction at a time."""
    try:
        for header, batch in _after(files, offset):
            if header.is_control and header.producer_id == begun.producer_id:
                end = marker_of(header, batch)
                if end is not None:
                    at = header.base_offset
                    return f"{'committed' if end.committed else 'aborted'} by the marker at offset {at}", at
    except (CorruptBatch, OSError) as error:
        return f"whose marker was not found before {error}", None
    return "of which this log holds no marker", None


def _after(files: ReplicaFiles, offset: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Batches behind an offset, in their order."""
    names = files.segments()
    for name, following in zip(names, [*names[1:], None], strict=True):
        if following is not None and int(following.partition(".")[0]) <= offset:
            continue
        view = memoryview(files.segment(name))
        for position, header in iter_batches(view, verify_crc=False):
            if header.base_offset > offset:
                yield header, view[position : position + header.size]


def value_of(record: Record) -> int | None:
    """The number that names a record of the lab (docs/history-format.md); None for one of others."""
    marked = record.value if record.value is not None else next((v for k, v in record.headers if k == "id"), None)
    found = None if marked is None else _VALUE.match(marked)
    return None if found is None else int(found[1])
