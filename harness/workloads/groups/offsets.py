"""Committed offsets as the history has them (docs/history-format.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def named(topic: str, partitions: Iterable[int]) -> list[str]:
    """Partitions as `topic-partition`."""
    return [f"{topic}-{partition}" for partition in partitions]


def offsets_field(topic: str, offsets: Mapping[int, int]) -> list[dict[str, object]]:
    """The field `offsets` of a line."""
    return [{"p": f"{topic}-{partition}", "offset": offset} for partition, offset in sorted(offsets.items())]
