"""What the copied files of each replica hold at one offset, in the end.

Decides the words for it. Reads batches as docs of Kafka's format have them (`broker.wire`); damage is said, not raised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from broker.wire.record_batch import CorruptBatch, check_crc, iter_batches
from broker.wire.records import Record, iter_records
from harness.report.life.files import RunFiles

_VALUE = re.compile(rb"(\d{1,19})\|")


@dataclass(frozen=True, slots=True)
class Holding:
    """text: a sentence. value: the number of the record that is there, None where none is, or it has none."""

    node: str
    text: str
    value: int | None = None


def holding(files: RunFiles, node: str, p: str, offset: int) -> Holding:
    """Of one node."""
    segments = files.segments(node, p)
    if not segments:
        return Holding(node, f"{node}: no files of {p} were copied.")
    first = int(segments[0].partition(".")[0])
    if offset < first:
        return Holding(node, f"{node}: its log begins at offset {first}.")
    name = [one for one in segments if int(one.partition(".")[0]) <= offset][-1]
    end = int(name.partition(".")[0])
    try:
        view = memoryview(files.segment(node, p, name))
        for position, header in iter_batches(view, verify_crc=False):
            if header.base_offset <= offset <= header.last_offset:
                check_crc(view, position, header)
                batch = view[position : position + header.size]
                here = next((one for one in iter_records(header, batch) if one.offset == offset), None)
                return _of_batch(node, offset, header.partition_leader_epoch, here, control=header.is_control)
            if header.base_offset > offset:
                return Holding(
                    node, f"{node}: nothing at offset {offset}; the batch after it begins at {header.base_offset}."
                )
            end = header.last_offset + 1
    except CorruptBatch as damage:
        return Holding(node, f"{node}: {name} is damaged: {damage}.")
    except OSError as error:
        return Holding(node, f"{node}: {name} cannot be read: {error.strerror or error}.")
    if name != segments[-1]:
        return Holding(node, f"{node}: nothing at offset {offset}; {name} ends at {end}.")
    return Holding(node, f"{node}: its log ends at offset {end}, before it.")


def _of_batch(node: str, offset: int, epoch: int, record: Record | None, *, control: bool) -> Holding:
    led = f"of leader epoch {epoch}"
    if control:
        return Holding(node, f"{node}: a transaction's marker at offset {offset}, {led}.")
    if record is None:
        return Holding(node, f"{node}: a batch {led} whose record at offset {offset} was compacted away.")
    value = value_of(record)
    what = "a record that the lab did not write" if value is None else f"value {value}"
    return Holding(node, f"{node}: {what} at offset {offset}, {led}.", value)


def value_of(record: Record) -> int | None:
    """The number that names a record of the lab (docs/history-format.md); None for one of others."""
    marked = record.value if record.value is not None else next((v for k, v in record.headers if k == "id"), None)
    found = None if marked is None else _VALUE.match(marked)
    return None if found is None else int(found[1])
