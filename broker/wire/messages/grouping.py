"""Flat partition lists to the topic groups of the hot messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

_T = TypeVar("_T", bound=tuple[Any, ...])


def by_topic(items: Sequence[_T], key_index: int = 0) -> list[tuple[str, list[_T]]]:
    """Neighbours with the same item[key_index] together; the order of `items` is kept."""
    groups: list[tuple[str, list[_T]]] = []
    last: str | None = None
    for item in items:
        key: str = item[key_index]
        if key == last:
            groups[-1][1].append(item)
        else:
            groups.append((key, [item]))
            last = key
    return groups
