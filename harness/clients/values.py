"""What a record of the harness looks like: its value, where it belongs, and a hash of both (docs/history-format.md).

Decides the bytes of a record. Must not know sockets or the history. Invariant: a record read back as `intact` carries
the value that was sent to just this partition.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

_NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}")
_PADDING = b"."
VALUE_MAX = 2**63 - 1


class Parsed(NamedTuple):
    """value: None when the bytes are not a record of this harness; intact: hash, topic and partition all match."""

    value: int | None
    intact: bool


IDENTITY = "id"
"""Header of a tombstone: what would be its value field."""


def encode_value(value: int, topic: str, partition: int, size_bytes: int, key: bytes | None = None) -> bytes:
    """The record's value field, padded to size_bytes where it is shorter. key: of the record, which the hash covers."""
    assert 0 <= value <= VALUE_MAX
    head = b"%d|%s-%d" % (value, topic.encode("ascii"), partition)
    body = b"%s|%s|" % (head, _hash(head, key))
    return body.ljust(size_bytes, _PADDING)


def encode_key(key: int) -> bytes:
    """The record's key field."""
    return b"%d" % key


def parse_record(
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] | None,
    topic: str,
    partition: int,
) -> Parsed:
    """Reads any record of this harness; a tombstone says by its header who it is."""
    raw = value if value is not None else dict(headers or ()).get(IDENTITY)
    return parse_value(raw, topic, partition, key)


def parse_value(raw: bytes | None, topic: str, partition: int, key: bytes | None = None) -> Parsed:
    """Reads what `encode_value` wrote; topic, partition, key: where, and with which key, the record was read."""
    parts = raw.split(b"|", 3) if raw is not None else ()
    if len(parts) != 4 or _NUMBER.fullmatch(parts[0]) is None:
        return Parsed(None, False)
    value = int(parts[0])
    if value > VALUE_MAX:
        return Parsed(None, False)
    home = b"%s-%d" % (topic.encode("ascii"), partition)
    return Parsed(value, parts[1] == home and parts[2] == _hash(b"%s|%s" % (parts[0], parts[1]), key))


def _hash(head: bytes, key: bytes | None) -> bytes:
    return hashlib.sha256(head if key is None else b"%s|%s" % (head, key)).hexdigest()[:16].encode("ascii")
