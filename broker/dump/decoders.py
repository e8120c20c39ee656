"""Keys and values as text, by the names of Kafka's decoder classes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping


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


DECODERS: Mapping[str, Callable[[bytes], str]] = {
    "StringDecoder": string,
    "IntegerDecoder": integer,
    "LongDecoder": long,
    "DefaultDecoder": hexadecimal,
}


def by_class(name: str) -> Callable[[bytes], str]:
    """The decoder of that class, with or without its package. Raises ValueError."""
    found = DECODERS.get(name.rpartition(".")[2])
    if found is None:
        raise ValueError(f"{name!r} is no decoder; there are {', '.join(DECODERS)}")
    return found
