"""Lines to records, as Kafka's LineMessageReader reads them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.tools.client.errors import ToolError

_LINE_END = re.compile(rb"\r\n|\n|\r")
_KNOWN: Final = frozenset(
    {
        *("topic", "parse.key", "key.separator", "parse.headers", "headers.delimiter", "headers.separator"),
        *("headers.key.separator", "ignore.error", "null.marker"),
    }
)


class Line(NamedTuple):
    """What a record is made of."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Lines:
    """Cuts what is read into lines; they end with \\n, \\r\\n or \\r."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that end within data."""
        text = self._rest + data
        # A \r at the end may be the first half of a \r\n.
        held = text[-1:] if text.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(text[: len(text) - len(held)])
        self._rest = rest + held
        return lines

    def end(self) -> list[bytes]:
        """A last line without an end."""
        rest, self._rest = self._rest, b""
        return [rest.removesuffix(b"\r")] if rest else []


class LineReader:
    """Options by the names of Kafka's reader. Raises ToolError for those that contradict each other."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def flag(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        self._parse_key, self._parse_headers = flag("parse.key"), flag("parse.headers")
        self._ignore_error = flag("ignore.error")
        names = ("key.separator", "headers.delimiter", "headers.separator", "headers.key.separator")
        defaults = ("\t", "\t", ",", ":")
        separators = {name: properties.get(name, default) for name, default in zip(names, defaults, strict=True)}
        self._null = properties["null.marker"].encode() if "null.marker" in properties else None
        pairs = [(names[1], names[2]), (names[1], names[3]), (names[2], names[3])]
        for one, other in pairs:
            if separators[one] == separators[other]:
                raise ToolError(f"{one} and {other} may not be equal")
        for name, text in separators.items():
            if self._null == text.encode():
                raise ToolError(f"null.marker and {name} may not be equal")
        self._key_separator, self._headers_delimiter, _, self._header_key_separator = (
            text.encode() for text in separators.values()
        )
        try:
            self._headers_separator = re.compile(separators["headers.separator"].encode())
        except re.error as error:
            raise ToolError(
                f"headers.separator={separators['headers.separator']}: no regular expression: {error}"
            ) from None
        self._number = 0
        self.unknown = sorted(set(properties) - _KNOWN)

    def read(self, line: bytes) -> Line:
        """line: without its end. Raises ToolError where something is missing, unless ignore.error is set."""
        self._number += 1
        headers, line = self._part(self._parse_headers, line, self._headers_delimiter, "headers delimiter")
        key, value = self._part(self._parse_key, line, self._key_separator, "key separator")
        return Line(
            None if key == self._null else key,
            None if value == self._null and self._null is not None else value,
            () if headers is None or headers == self._null else tuple(self._headers(headers)),
        )

    def _part(self, enabled: bool, line: bytes, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        """What stands before the separator, and behind it."""
        if not enabled:
            return None, line
        part, found, rest = line.partition(separator) if separator else (b"", b"", line)
        if not found and separator:
            if self._ignore_error:
                return None, line
            raise ToolError(f"No {name} found on line number {self._number}: '{line.decode('utf-8', 'replace')}'")
        return part, rest

    def _headers(self, text: bytes) -> list[tuple[str, bytes | None]]:
        pairs = self._headers_separator.split(text)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        found: list[tuple[str, bytes | None]] = []
        for pair in pairs:
            name, sign, value = pair.partition(self._header_key_separator)
            if not sign:
                if not self._ignore_error:
                    shown = pair.decode("utf-8", "replace")
                    raise ToolError(f"No header key separator found in pair '{shown}' on line number {self._number}")
                found.append((pair.decode("utf-8", "replace"), None))
                continue
            if self._null is not None and name == self._null:
                marker = self._null.decode()
                raise ToolError(f"Header keys should not be equal to the null marker '{marker}' as they can't be null")
            found.append((name.decode("utf-8", "replace"), None if value == self._null else value))
        return found
