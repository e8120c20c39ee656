"""A dict that counts how many of its entries were looked at by going over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Counted(dict[K, V]):
    visits = 0

    def __iter__(self) -> Iterator[K]:
        for key in super().__iter__():
            self.visits += 1
            yield key

    def keys(self) -> Any:
        return iter(self)

    def values(self) -> Any:
        return (self[key] for key in self)

    def items(self) -> Any:
        return ((key, self[key]) for key in self)
