"""Keys and values as text, by the names of Kafka's decoder classes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.wire.records import Record

Decoder = Callable[[bytes], str]


def string(data: bytes) -> str:
    """UTF-8, with what is none replaced."""
    return data.decode("utf-8", "replace")


def integer(data: bytes) -> str:
    """The first four bytes."""
    return _number(data, 4)


def long(data: bytes) -> str:
    """The first eight bytes."""
    return _number(data, 8)


def hexadecimal(data: bytes) -> str:
    """The bytes themselves. Kafka's DefaultDecoder prints where in memory they lie instead."""
    return data.hex()


def _number(data: bytes, size: int) -> str:
    if len(data) < size:
        return f"(no number of {size} bytes: {data.hex()})"
    return str(int.from_bytes(data[:size], "big", signed=True))


DECODERS: Mapping[str, Decoder] = {
    "StringDecoder": string,
    "IntegerDecoder": integer,
    "LongDecoder": long,
    "DefaultDecoder": hexadecimal,
}


def by_class(name: str) -> Decoder:
    """The decoder of that class, with or without its package. Raises ValueError."""
    found = DECODERS.get(name.rpartition(".")[2])
    if found is None:
        raise ValueError(f"{name!r} is no decoder; there are {', '.join(DECODERS)}")
    return found


def key_and_value(key: Decoder, value: Decoder) -> Callable[[Record], tuple[str | None, str | None]]:
    """Contents of records whose keys and values know nothing of each other."""
    return lambda record: (
        None if record.key is None else key(record.key),
        None if record.value is None else value(record.value),
    )
