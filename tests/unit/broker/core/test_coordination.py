"""Which partition a key belongs to: the same as Java says."""

from __future__ import annotations

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


def test_partition_of_is_never_negative() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("a", 50) == 47
    assert {partition_of(f"g{i}", 7) for i in range(200)} == set(range(7))
