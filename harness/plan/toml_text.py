"""Writes values as TOML text: what a run file or a matrix file would hold.

Decides how values look. Must not know which keys there are. Invariant: `tomllib.loads(document(values)) == values`, for
values as tomllib makes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def document(values: Mapping[str, object]) -> str:
    """A whole TOML text; the tables stand after the values of the table that holds them, as TOML wants it."""
    out: list[str] = []
    _table(out, (), values, "")
    return "\n".join(out) + "\n"


def _table(out: list[str], path: Sequence[str], values: Mapping[str, object], header: str) -> None:
    plain = {name: value for name, value in values.items() if not _is_table(value) and not _is_tables(value)}
    if header and (plain or not values or header.startswith("[[")):
        out.extend(["", header] if out else [header])
    out.extend(f"{key(name)} = {value_text(value)}" for name, value in plain.items())
    for name, value in values.items():
        inside = (*path, name)
        dotted = ".".join(key(part) for part in inside)
        if isinstance(value, Mapping):
            _table(out, inside, value, f"[{dotted}]")
        elif _is_tables(value):
            for item in value:  # type: ignore[attr-defined]
                _table(out, inside, item, f"[[{dotted}]]")


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)


def section(out: list[str], header: str, values: Mapping[str, object]) -> None:
    """Add a table's lines with the header above them; nothing where it is empty."""
    if values:
        out.extend(["", header])
        out.extend(f"{key(name)} = {value_text(value)}" for name, value in values.items())


def key(name: str) -> str:
    """Bare where TOML lets it be, else quoted."""
    return name if name and name.replace("_", "").replace("-", "").isalnum() and name.isascii() else value_text(name)


def value_text(value: object) -> str:
    """One value, on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list() | tuple():
            return "[" + ", ".join(value_text(item) for item in value) + "]"
        case Mapping():
            return "{" + ", ".join(f"{key(str(k))} = {value_text(v)}" for k, v in value.items()) + "}"
        case _:
            # Dates and times: TOML's form is ISO 8601.
            return str(value)
