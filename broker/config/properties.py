"""Java `.properties` text to a mapping, as Kafka's own configuration files are written.

Comments (`#`, `!`), `=`/`:`/blank separators, continuation lines and the escapes that occur in practice.
Source: java.util.Properties.load.
"""

from __future__ import annotations

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Later keys win, as in Java."""
    out: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        if key:
            out[key] = value
    return out


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    pending = ""
    for raw in text.splitlines():
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
        else:
            pending = ""
            lines.append(line)
    if pending:
        lines.append(pending)
    return lines


def _split(line: str) -> tuple[str, str]:
    key: list[str] = []
    i = 0
    while i < len(line) and line[i] not in "=: \t\f":
        if line[i] == "\\" and i + 1 < len(line):
            i += 1
            key.append(_ESCAPES.get(line[i], line[i]))
        else:
            key.append(line[i])
        i += 1
    while i < len(line) and line[i] in " \t\f":
        i += 1
    if i < len(line) and line[i] in "=:":
        i += 1
        while i < len(line) and line[i] in " \t\f":
            i += 1
    value: list[str] = []
    while i < len(line):
        if line[i] == "\\" and i + 1 < len(line):
            i += 1
            if line[i] == "u" and len(line) >= i + 5:
                value.append(chr(int(line[i + 1 : i + 5], 16)))
                i += 4
            else:
                value.append(_ESCAPES.get(line[i], line[i]))
        else:
            value.append(line[i])
        i += 1
    return "".join(key), "".join(value)
