"""Random values for requests' fields, by what the fields are called: mostly what a broker knows, now and then extremes.

Names of fields are Kafka's. A value is plausible so often that a request gets past the first checks, into the rules
behind them. What brokers hand out (member ids, producer ids, sessions) is learned from their answers.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Final

import crc32c

from broker.wire.compression import Compression
from broker.wire.coordinator_records.batches import group_record, offset_record, transaction_record
from broker.wire.coordinator_records.offsets_topic import OffsetCommitValue
from broker.wire.record_batch import CRC_START
from broker.wire.records import NewRecord, encode_batch

NAMES: Final = tuple(f"fuzz-{number}" for number in range(4))
"""Of topics, groups and transactional ids alike."""
_CHANGING: Final = NAMES[2:]
"""Of topics that requests may create, delete, move."""
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
ADMIN_CLIENT: Final = "__admin_client"
"""A client of this id may write to internal topics (Kafka's ReplicaManager)."""
CLIENT_IDS: Final = ("fuzz", ADMIN_CLIENT, "", None)
_LEARNED_MAX: Final = 32
_CONFIGS: Final = ("retention.ms", "cleanup.policy", "max.message.bytes", "min.insync.replicas", "no.such.config")
_CONFIG_VALUES: Final = ("1000", "compact", "delete", "compact,delete", "-1", "", "x" * 300, "9" * 40, "é\n\0")
_WORDS: Final = ("", ".", "..", "a/b", "x\ny", "\0", "é" * 100, "%s%n", "'\"", "z" * 249, "z" * 32767)
_EXTREMES: Final[Mapping[str, tuple[int, ...]]] = {
    "int8": (0, 1, -1, 2, 127, -128),
    "int16": (0, 1, -1, 2, 0x7FFF, -0x8000),
    "int32": (0, 1, -1, 2, 0x7FFFFFFF, -0x80000000, 0x7FFFFFFE, 1 << 16),
    "int64": (0, 1, -1, -2, (1 << 63) - 1, -(1 << 63), 1 << 31, 1 << 62),
}
_NUMBERS: Final[Mapping[str, tuple[int, ...]]] = {
    "partition": (0, 0, 0, 1, 2, 3),
    "partition_index": (0, 0, 0, 1, 2, 3),
    "partitions": (0, 0, 1),
    "partition_indexes": (0, 0, 1),
    "partition_id": (0, 0, 1),
    "broker_ids": (1, 2),
    "broker_id": (1, 2),
    "replicas": (1, 2),
    "isr": (1, 2),
    "controller_id": (1, 2, -1),
    "replica_id": (-1, -1, -2, 1, 2),
    "resource_type": (2, 2, 2, 2, 4, 8, 1),
    "key_type": (0, 1),
    "acks": (-1, 0, 1),
    "timeout_ms": (0, 10, 50),
    "session_timeout_ms": (6000, 6000, 6000, 10000),
    "rebalance_timeout_ms": (100, 1000),
    "transaction_timeout_ms": (1000, 60000),
    "max_wait_ms": (0, 10),
    "min_bytes": (0, 1),
    "max_bytes": (1 << 20, 0),
    "num_partitions": (1, 2, -1),
    "count": (1, 2, 3),
    "replication_factor": (1, -1),
    "timestamp": (-1, -2, -3, -4, -5, 0, 1_700_000_000_000),
    "offset": (0, 0, 1, 5),
    "committed_offset": (0, 1, 100),
    "fetch_offset": (0, 0, 1, 5),
    "leader_epoch": (-1, 0, 1),
    "current_leader_epoch": (-1, -1, 0),
    "committed_leader_epoch": (-1, 0),
    "coordinator_epoch": (0, 0, 1),
    "config_operation": (0, 1, 2, 3),
    "election_type": (0, 1),
    "match_type": (0, 1, 2),
    "match": (0, 1, 2),
    "retention_time_ms": (-1, -1, 1000),
    "isolation_level": (0, 1),
}
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "protocol_type": ("consumer",) * 9 + ("connect",),
    "protocol_name": ("range", "roundrobin"),
    "group_instance_id": ("still-1", "still-2"),
    "resource_name": (*NAMES, *NAMES, "1", "2"),
    "protocol": ("range", "roundrobin"),
    "entity_type": ("client-id", "user", "ip"),
    "states_filter": ("Stable", "Empty"),
    "state_filters": ("Ongoing", "Empty"),
    "log_dir": ("/nowhere",),
    "path": ("/nowhere",),
    "client_software_name": ("fuzz",),
    "client_software_version": ("1.0",),
}
_SUBSCRIPTION: Final = struct.pack(">hih", 1, 1, len(NAMES[0])) + NAMES[0].encode() + struct.pack(">ii", -1, 0)
_CODECS: Final = (Compression.NONE, Compression.NONE, Compression.NONE, Compression.GZIP)


class Values:
    """Draws from one Random. What brokers handed out is kept by kind, the last of each."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.used: dict[str, int | str] = {}
        """What the request under way has in its fields so far; the last where it has several of a name."""
        self._story: dict[str, int | str] = {}
        self.all_names = True
        """Whether names of internal topics come, too, and of those that are to stay as they are."""
        self._learned: dict[str, deque[dict[str, int | str]]] = {}

    def begin(self) -> None:
        """The next request: mostly about a member, a producer, a session that there are."""
        self.used = {}
        self._story = {}
        for known in self._learned.values():
            if self.rng.random() < 0.7:
                self._story |= self.rng.choice(known)

    def learn(self, kind: str, **fields: int | str) -> None:
        """A broker handed out what belongs together. kind: of such things."""
        self._learned.setdefault(kind, deque(maxlen=_LEARNED_MAX)).append(fields)

    def number(self, name: str, kind: str) -> int:
        """kind: int8 to int64."""
        value = self.used[name] = self._number(name, kind)
        return value

    def _number(self, name: str, kind: str) -> int:
        known = self._story.get(name)
        if isinstance(known, int):
            return known
        if self.rng.random() < 0.85:
            usual = _NUMBERS.get(name)
            return self.rng.choice(usual) if usual is not None else self.rng.choice((0, 0, 1, -1))
        return self.rng.choice(_EXTREMES[kind])

    def text(self, name: str) -> str:
        value = self.used[name] = self._text(name)
        return value

    def _text(self, name: str) -> str:
        if self.rng.random() < 0.04:
            return self.rng.choice(_WORDS)
        known = self._story.get(name)
        if isinstance(known, str):
            return known
        if name in _TEXTS:
            return self.rng.choice(_TEXTS[name])
        if "member_id" in name:
            return ""
        if not self.all_names:
            return self.rng.choice(_CHANGING)
        return self.rng.choice(INTERNAL if self.rng.random() < 0.2 else NAMES)

    def config(self) -> tuple[str, str]:
        return self.rng.choice(_CONFIGS), self.rng.choice(_CONFIG_VALUES)

    def uuid(self) -> str:
        return str(self._story.get("topic_id", ""))

    def blob(self) -> bytes:
        """Bytes that a protocol hands on: a consumer's subscription, or noise."""
        draw = self.rng.random()
        if draw < 0.5:
            return _SUBSCRIPTION
        return self.rng.randbytes(self.rng.choice((0, 1, 30, 5000) if draw < 0.95 else (200_000,)))

    def records(self) -> bytes:
        """Whole batches; some whose bytes lie under a checksum that fits."""
        rng = self.rng
        if rng.random() < 0.1:
            return rng.randbytes(rng.choice((0, 10, 61, 200)))
        producer_id = int(self._story.get("producer_id", -1))
        epoch = int(self._story.get("producer_epoch", -1))
        batch = bytearray(
            encode_batch(
                self._new_records(),
                timestamps=1_700_000_000_000,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=rng.choice((0, 1, 5)) if producer_id >= 0 else -1,
                compression=rng.choice(_CODECS),
                transactional=producer_id >= 0 and rng.random() < 0.5,
                control=rng.random() < 0.05,
            )
        )
        if rng.random() < 0.3:
            for _ in range(rng.choice((1, 2, 8))):
                batch[rng.randrange(CRC_START, len(batch))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(batch[CRC_START:])))
        return bytes(batch)

    def _new_records(self) -> list[NewRecord]:
        """Some that a coordinator would read, if they came into its partition."""
        rng = self.rng
        name = rng.choice(NAMES)
        draw = rng.random()
        if draw < 0.1:
            return [offset_record(name, name, 0, rng.choice((None, OffsetCommitValue(offset=1))))]
        if draw < 0.2:
            return [group_record(name, None), transaction_record(name, None)]
        return [
            NewRecord(rng.choice((None, b"", b"k", rng.randbytes(8))), rng.choice((None, b"", rng.randbytes(100))))
            for _ in range(rng.choice((1, 1, 3, 20)))
        ]
