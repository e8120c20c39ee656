"""Settings of a client, from a properties file and from options of the command line.

Whoever reads a setting says its default; names that nobody has read are in `unread`, so that a misspelt or an unknown
one is reported instead of being passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from broker.config.properties import parse_properties
from broker.tools.client.errors import ToolError
from broker.tools.client.numbers import whole_number

_TRUE_FALSE: Final = {"true": True, "false": False}
_JAVA_ONLY: Final = frozenset(
    {"key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "metric.reporters"}
)
"""Names of Java classes: every client of Kafka has them, and nothing here depends on them."""


class Properties:
    """Names and values as text, and which of them somebody has read."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._read = set(_JAVA_ONLY)

    @classmethod
    def load(cls, path: str | None) -> Properties:
        """Of a file, none for None. Raises ToolError where it cannot be read."""
        if path is None:
            return cls({})
        try:
            return cls(parse_properties(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ToolError(f"{path}: {error}") from None

    def put(self, values: Mapping[str, str]) -> None:
        """These beat what was there."""
        self._values.update(values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str, allowed: Iterable[str] = ()) -> str:
        """allowed: the values that are not wrong, all where there are none. Raises ToolError."""
        self._read.add(name)
        value = self._values.get(name, default).strip()
        choices = list(allowed)
        if choices and value not in choices:
            raise ToolError(f"{name}={value}: it must be one of {', '.join(choices)}")
        return value

    def number(self, name: str, default: int, least: int = 0) -> int:
        """A whole number from `least` to 2^31 − 1. Raises ToolError."""
        text = self.text(name, str(default))
        value = whole_number(text)
        if value is None or value < least:
            raise ToolError(f"{name}={text}: it must be a whole number from {least} to {2**31 - 1}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """`true` or `false`. Raises ToolError."""
        text = self.text(name, str(default).lower()).lower()
        if text not in _TRUE_FALSE:
            raise ToolError(f"{name}={text}: it must be true or false")
        return _TRUE_FALSE[text]

    def values(self) -> dict[str, str]:
        """All of them, which counts as having read them."""
        self._read |= set(self._values)
        return dict(self._values)

    def unread(self) -> list[str]:
        """Names that nobody has read so far, sorted."""
        return sorted(set(self._values) - self._read)


def key_values(words: Iterable[str], *, empty_allowed: bool = True) -> dict[str, str]:
    """`name=value` words; the value may hold `=`. Raises ToolError for a value that is missing and must not be."""
    found: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if not value and not empty_allowed:
            raise ToolError(f"Missing value for key {name}")
        found[name.strip()] = value
    return found
