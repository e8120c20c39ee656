"""Java `.properties` text to a mapping, as Kafka's own configuration files are written.

Comments (`#`, `!`), `=`/`:`/blank separators, continuation lines and the escapes that occur in practice.
Source: java.util.Properties.load.
"""

from __future__ import annotations

import re

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_CODE_UNIT = re.compile(r"[0-9A-Fa-f]{4}")


class PropertiesError(ValueError):
    """Text that Java refuses; says the line and what would be right."""


def parse_properties(text: str) -> dict[str, str]:
    """Later keys win, as in Java. Raises PropertiesError."""
    out: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, at = _unescaped(line, 0, "=:" + _BLANK, number)
        at = _behind_blanks(line, at)
        if line[at : at + 1] in ("=", ":"):
            at = _behind_blanks(line, at + 1)
        value, _ = _unescaped(line, at, "", number)
        if key:
            out[key] = value
    return out


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Lines with what continues them, each with the number of its first."""
    lines: list[tuple[int, str]] = []
    pending: tuple[int, str] | None = None
    for number, raw in enumerate(_LINE_END.split(text), 1):
        line = raw.lstrip(_BLANK)
        if pending is None and (not line or line[0] in "#!"):
            continue
        first, begun = pending or (number, "")
        line = begun + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = (first, line[:-1])
        else:
            pending = None
            lines.append((first, line))
    if pending is not None:
        lines.append(pending)
    return lines


def _behind_blanks(line: str, at: int) -> int:
    while at < len(line) and line[at] in _BLANK:
        at += 1
    return at


def _unescaped(line: str, at: int, ends: str, number: int) -> tuple[str, int]:
    """What stands from `at` to the first of `ends` that is not escaped, and where that is."""
    out: list[str] = []
    while at < len(line) and line[at] not in ends:
        if line[at] == "\\" and at + 1 < len(line):
            at += 1
            if line[at] == "u":
                digits = line[at + 1 : at + 5]
                if _CODE_UNIT.fullmatch(digits) is None:
                    raise PropertiesError(
                        f"line {number}: malformed \\uxxxx encoding '\\u{digits}': four hexadecimal digits are wanted, "
                        "and a backslash itself is written \\\\"
                    )
                out.append(chr(int(digits, 16)))
                at += 4
            else:
                out.append(_ESCAPES.get(line[at], line[at]))
        else:
            out.append(line[at])
        at += 1
    return "".join(out), at
