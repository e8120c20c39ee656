"""A record as bytes to print, as Kafka's DefaultMessageFormatter does. No I/O."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from broker.tools.client.admin import TopicPartition
from broker.tools.client.committed_reads import Shown
from broker.tools.client.errors import ToolError

_FLAGS: Final = {
    "print.timestamp": False,
    "print.partition": False,
    "print.offset": False,
    "print.headers": False,
    "print.key": False,
    "print.value": True,
}
_TEXTS: Final = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ",", "null.literal": "null"}
_DESERIALIZED: Final = ("key.deserializer", "value.deserializer", "headers.deserializer")

Deserializer = Callable[[bytes], bytes]


def _number(layout: str) -> Deserializer:
    packed = struct.Struct(layout)

    def read(data: bytes) -> bytes:
        if len(data) != packed.size:
            raise ToolError(f"Size of data received by the deserializer is not {packed.size}: {len(data)} bytes")
        return str(packed.unpack(data)[0]).encode()

    return read


_DESERIALIZERS: Final[Mapping[str, Deserializer]] = {
    "StringDeserializer": lambda data: data.decode("utf-8", "replace").encode(),
    "ShortDeserializer": _number(">h"),
    "IntegerDeserializer": _number(">i"),
    "LongDeserializer": _number(">q"),
    "FloatDeserializer": _number(">f"),
    "DoubleDeserializer": _number(">d"),
    "UUIDDeserializer": lambda data: str(uuid.UUID(data.decode())).encode(),
}


class Formatter(Protocol):
    """Makes a record text; names that it does not know are in `unknown`."""

    unknown: list[str]

    def format(self, where: TopicPartition, shown: Shown) -> bytes:
        """What is printed of one record. Raises ToolError for bytes that a deserializer cannot read."""
        ...


class DefaultFormatter:
    """Options by the names of Kafka's formatter. Raises ToolError for a deserializer that is not there."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def flag(name: str) -> bool:
            return properties[name].strip().lower() == "true" if name in properties else _FLAGS[name]

        self._timestamp, self._partition, self._offset, self._headers, self._key, self._value = map(flag, _FLAGS)
        self._separator, self._line, self._headers_separator, self._null = (
            properties.get(name, default).encode() for name, default in _TEXTS.items()
        )
        self._of_key, self._of_value, self._of_headers = (_deserializer(properties.get(name)) for name in _DESERIALIZED)
        self.unknown = sorted(set(properties) - {*_FLAGS, *_TEXTS, *_DESERIALIZED})

    def format(self, where: TopicPartition, shown: Shown) -> bytes:
        """As in Kafka: what comes last of time, partition, offset, headers and key is followed by the line's end."""
        record = shown.record
        parts: list[bytes] = []
        if self._timestamp:
            kind = "LogAppendTime" if shown.append_time else "CreateTime"
            parts.append(f"{kind}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP")
        if self._partition:
            parts.append(b"Partition:%d" % where[1])
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._headers:
            pairs = [name.encode() + b":" + self._read(self._of_headers, held) for name, held in record.headers]
            parts.append(self._headers_separator.join(pairs) if pairs else b"NO_HEADERS")
        if self._key:
            parts.append(self._read(self._of_key, record.key))
        if self._value:
            parts.append(self._read(self._of_value, record.value))
        return self._separator.join(parts) + self._line if parts else b""

    def _read(self, deserializer: Deserializer | None, data: bytes | None) -> bytes:
        data = self._null if data is None else data
        return data if deserializer is None else deserializer(data)


class NoFormatter:
    """Prints nothing, as Kafka's NoOpMessageFormatter."""

    def __init__(self, _: Mapping[str, str]) -> None:
        self.unknown: list[str] = []

    def format(self, where: TopicPartition, shown: Shown) -> bytes:
        """Nothing."""
        return b""


_FORMATTERS: Final[Mapping[str, Callable[[Mapping[str, str]], Formatter]]] = {
    "DefaultMessageFormatter": DefaultFormatter,
    "NoOpMessageFormatter": NoFormatter,
}


def formatter(name: str | None, properties: Mapping[str, str]) -> Formatter:
    """By the name of Kafka's class. Raises ToolError for another."""
    chosen = "DefaultMessageFormatter" if name is None else name.rpartition(".")[2]
    if chosen not in _FORMATTERS:
        raise ToolError(
            f"--formatter {name}: there are {', '.join(_FORMATTERS)}; "
            "highwater-dump-log shows what internal topics hold"
        )
    return _FORMATTERS[chosen](properties)


def _deserializer(name: str | None) -> Deserializer | None:
    short = "" if name is None else name.rpartition(".")[2]
    if short in ("", "ByteArrayDeserializer", "BytesDeserializer"):
        return None
    if short not in _DESERIALIZERS:
        raise ToolError(f"deserializer {name}: there are ByteArrayDeserializer, {', '.join(_DESERIALIZERS)}")
    return _DESERIALIZERS[short]
