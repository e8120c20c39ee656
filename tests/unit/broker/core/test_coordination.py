"""Which partition a key belongs to: the same as Java says."""

from __future__ import annotations

from functools import reduce

import pytest

from broker.core.coordination import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer-12345", 158455506),
        ("polygenelubricants", -(2**31)),
        ("grüße", 98768023),
        ("\U0001f600", 1772899),
    ],
)
def test_java_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 32_767])
def test_java_hash_of_long_text_is_that_of_its_definition(length: int) -> None:
    text = "".join(chr(97 + number % 26) if number % 7 else "\u20ac\ud800" for number in range(length))[:length]
    units = text.encode("utf-16-be", "surrogatepass")
    plain = reduce(lambda value, at: 31 * value + int.from_bytes(units[at : at + 2]), range(0, len(units), 2), 0)
    assert java_hash(text) % 2**32 == plain % 2**32


def test_partition_of_is_never_negative() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("a", 50) == 47
    assert {partition_of(f"g{i}", 7) for i in range(200)} == set(range(7))
