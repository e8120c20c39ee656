"""What a record of the harness looks like: its value, where it belongs, and a hash of both (docs/history-format.md).

Decides the bytes of a record. Must not know sockets or the history. Invariant: a record read back as `intact` carries
the value that was sent to just this partition.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

_NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}")
_PADDING = b"."
VALUE_MAX = 2**63 - 1


class Parsed(NamedTuple):
    """value: None when the bytes are not a record of this harness; intact: hash, topic and partition all match."""

    value: int | None
    intact: bool


def encode_value(value: int, topic: str, partition: int, size_bytes: int) -> bytes:
    """The record's value field, padded to size_bytes where it is shorter."""
    assert 0 <= value <= VALUE_MAX
    head = b"%d|%s-%d" % (value, topic.encode("ascii"), partition)
    body = b"%s|%s|" % (head, _hash(head))
    return body.ljust(size_bytes, _PADDING)


def parse_value(raw: bytes | None, topic: str, partition: int) -> Parsed:
    """Reads what `encode_value` wrote; topic and partition: where the record was read."""
    parts = raw.split(b"|", 3) if raw is not None else ()
    if len(parts) != 4 or _NUMBER.fullmatch(parts[0]) is None:
        return Parsed(None, False)
    value = int(parts[0])
    if value > VALUE_MAX:
        return Parsed(None, False)
    home = b"%s-%d" % (topic.encode("ascii"), partition)
    return Parsed(value, parts[1] == home and parts[2] == _hash(b"%s|%s" % (parts[0], parts[1])))


def _hash(head: bytes) -> bytes:
    return hashlib.sha256(head).hexdigest()[:16].encode("ascii")
