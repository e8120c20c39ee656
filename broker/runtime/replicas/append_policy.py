"""How a leader changes the batches of topics that do not store them as they were sent.

`message.timestamp.type=LogAppendTime`, a `compression.type` but `producer`, and a bound on timestamps from the future.
Ordinary topics have no policy, and their batches pay for none. Done between the requests of others, so what a batch may
inflate to is bounded. Knows no log and no replica.
Source: UnifiedLog.append, LogValidator, BrokerCompressionType.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from broker.config.settings import Settings, topic_int, topic_text
from broker.config.values import COMPRESSION_TYPE, codec_of
from broker.wire.batch_rewriting import with_append_time, with_codec
from broker.wire.compression import CodecMissing, Compression, CompressionError, InflatesTooFar
from broker.wire.errors import ErrorCode
from broker.wire.record_batch import HEADER_SIZE, BatchHeader, CorruptBatch, InvalidBatch

INFLATED_BYTES_MAX = 16 << 20
"""Or four times max.message.bytes, if that is more."""
RECORDS_MAX = 500_000
_LEVELS = {
    Compression.GZIP: "compression.gzip.level",
    Compression.LZ4: "compression.lz4.level",
    Compression.ZSTD: "compression.zstd.level",
}
_ANY_MS = 2**63 - 1


class Accepted(NamedTuple):
    """What is appended. batch: the one that came, perhaps with another header, or a new one."""

    header: BatchHeader
    batch: memoryview


@dataclass(frozen=True, slots=True)
class AppendPolicy:
    """One topic's. codec: None leaves it to the producer. after_max_ms: how far ahead of the leader a timestamp is."""

    append_time: bool = False
    codec: Compression | None = None
    level: int | None = None
    after_max_ms: int = _ANY_MS

    @classmethod
    def of(cls, overrides: Mapping[str, str], settings: Settings) -> AppendPolicy | None:
        """None for an ordinary topic: its batches are stored as they were sent."""
        codec = codec_of(topic_text(overrides, settings, COMPRESSION_TYPE))
        level_name = _LEVELS.get(codec) if codec is not None else None
        policy = cls(
            topic_text(overrides, settings, "message.timestamp.type") == "LogAppendTime",
            codec,
            None if level_name is None else topic_int(overrides, settings, level_name),
            topic_int(overrides, settings, "message.timestamp.after.max.ms"),
        )
        return None if policy == cls() else policy

    def apply(
        self, header: BatchHeader, batch: memoryview, max_batch_bytes: int, now_ms: int
    ) -> Accepted | InvalidBatch:
        """The batch as it is to be stored, with a good CRC, or why it is refused. batch has been checked, is writable
        and may be changed. now_ms: the leader's wall clock.
        """
        append_time_ms = now_ms if self.append_time else None
        if append_time_ms is None and header.max_timestamp - now_ms > self.after_max_ms:
            return InvalidBatch(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {header.max_timestamp} is out of range: it should be {now_ms + self.after_max_ms} at most",
            )
        if self.codec is not None and self.codec != header.compression and not header.is_control:
            # Markers stay as they are: a transaction whose marker is refused, too large as it is packed, never ends.
            return self._recoded(self.codec, header, batch, max_batch_bytes, append_time_ms)
        if append_time_ms is not None:
            header = with_append_time(header, batch, append_time_ms)
        return Accepted(header, batch)

    def _recoded(
        self,
        codec: Compression,
        header: BatchHeader,
        batch: memoryview,
        max_batch_bytes: int,
        append_time_ms: int | None,
    ) -> Accepted | InvalidBatch:
        if header.record_count > RECORDS_MAX:
            return InvalidBatch(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {header.record_count} records; to be stored as {codec.name.lower()} it has at most "
                f"{RECORDS_MAX}",
            )
        inflated_max = max(INFLATED_BYTES_MAX, 4 * max_batch_bytes)
        if codec is Compression.NONE:
            inflated_max = max(0, max_batch_bytes - HEADER_SIZE)
        try:
            new_header, new = with_codec(header, batch, codec, self.level, inflated_max, append_time_ms)
        except InflatesTooFar as too_far:
            return InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, f"to be stored as {codec.name.lower()}: {too_far}")
        except CodecMissing as missing:
            return InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(missing))
        except (CompressionError, CorruptBatch) as corrupt:
            return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, str(corrupt))
        if new_header.size > max_batch_bytes:
            text = f"a batch of {new_header.size} bytes as {codec.name.lower()}, max.message.bytes is {max_batch_bytes}"
            return InvalidBatch(ErrorCode.MESSAGE_TOO_LARGE, text)
        return Accepted(new_header, new)
