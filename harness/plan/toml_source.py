"""Reads typed values out of a TOML text and says, for each one that is wrong, where it stands and what would be right.

Decides how an error of a run file is worded and which line it names. Must not know which keys a run file has (`plan`).
Invariant: every key that is read is marked; `Table.finish` refuses the rest, so a misspelt key is never ignored.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

Path = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")


class PlanError(Exception):
    """A run file that cannot be used. The text is `file:line: key: what was found; what is allowed`."""


@dataclass(frozen=True, slots=True)
class Source:
    """A TOML text, its name for messages, and the line of each key."""

    name: str
    text: str
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int:
        """Line of the key, or of the nearest table that holds it; 1 when there is none."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path[:-1]
        return 1

    def error(self, path: Path, problem: str) -> PlanError:
        """To be raised; names file, line and key. path: keys from the top, () for the file as a whole."""
        key = ".".join(str(part) for part in path)
        where = f"{self.name}:{self.line(path)}"
        return PlanError(f"{where}: {key}: {problem}" if key else f"{where}: {problem}")


def parse(name: str, text: str) -> tuple[Source, dict[str, object]]:
    """The parsed TOML and where its keys stand. Raises PlanError where the text is not TOML."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+)", str(error))
        line = at.group(1) if at else str(text.count("\n") + 1)
        raise PlanError(f"{name}:{line}: not TOML: {error}") from None
    except RecursionError:
        raise PlanError(f"{name}: cannot be read: brackets are nested too deeply") from None
    except ValueError:
        # A date that there is not is told as TOMLDecodeError; of a number int() knows better.
        raise PlanError(f"{name}: cannot be read: a number has more digits than any number here may have") from None
    return Source(name, text, key_lines(text)), values


def key_lines(text: str) -> dict[Path, int]:
    """Line number (from 1) of each table header and each key at a line's start. Keys in inline tables have none."""
    lines: dict[Path, int] = {}
    table: Path = ()
    arrays: dict[Path, int] = {}
    in_text: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if in_text is not None:
            if in_text in line:
                in_text = None
            continue
        header = _HEADER.match(line)
        key = _KEY.match(line)
        if header:
            table = _parts(header.group(2))
            if header.group(1) == "[[":
                index = arrays[table] = arrays.get(table, -1) + 1
                table = (*table, index)
            else:
                table = _inside_arrays(table, arrays)
            lines.setdefault(table, number)
        elif key:
            path = (*table, *_parts(key.group(1)))
            lines.setdefault(path, number)
            for mark in ('"""', "'''"):
                if line.count(mark) == 1:
                    in_text = mark
    return lines


def _parts(dotted: str) -> Path:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _inside_arrays(path: Path, arrays: Mapping[Path, int]) -> Path:
    """`[a.b]` after `[[a]]` belongs to the last element of a."""
    out: Path = ()
    for part in path:
        out = (*out, part)
        if out in arrays:
            out = (*out, arrays[out])
    return out


class Table:
    """One table of a run file. Each reader marks its key; a key with no default is required."""

    def __init__(self, source: Source, path: Path, values: object) -> None:
        if not isinstance(values, dict):
            raise source.error(path, f"{show(values)} is not a table")
        self.source = source
        self.path = path
        self.values: dict[str, object] = values
        self._known: set[str] = set()

    def error(self, key: str, problem: str) -> PlanError:
        """To be raised; names file, line and key of one value of this table."""
        return self.source.error((*self.path, key), problem)

    def has(self, key: str) -> bool:
        """Whether the run file gives the key. Marks it as known: a file that lacks it may still misspell it."""
        self._known.add(key)
        return key in self.values

    def _take(self, key: str, expected: str, required: bool) -> object:
        self._known.add(key)
        if key not in self.values and required:
            raise self.error(key, f"missing; expected {expected}")
        return self.values.get(key)

    def text(
        self,
        key: str,
        default: str | None = None,
        *,
        allowed: Sequence[str] | None = None,
        pattern: str | None = None,
    ) -> str:
        """A string; `allowed` is a closed list, `pattern` a full match."""
        expected = f"one of {', '.join(allowed)}" if allowed else f"text like {pattern}" if pattern else "text"
        value = self._take(key, expected, default is None)
        if value is None:
            return cast(str, default)
        wrong = not isinstance(value, str)
        wrong = wrong or (allowed is not None and value not in allowed)
        wrong = wrong or (pattern is not None and re.fullmatch(pattern, cast(str, value)) is None)
        if wrong:
            raise self.error(key, f"{show(value)} is not {expected}")
        return cast(str, value)

    def optional_text(self, key: str) -> str | None:
        """None where the key is absent. Raises PlanError where it is no text."""
        return self.text(key) if self.has(key) else None

    def integer(self, key: str, default: int | None = None, *, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        expected = f"a whole number from {low} to {high}"
        value = self._take(key, expected, default is None)
        if value is None:
            return cast(int, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(key, f"{show(value)} is not {expected}")
        return value

    def optional_integer(self, key: str, *, low: int, high: int) -> int | None:
        """A whole number in [low, high]; None where the key is absent. Raises PlanError."""
        return self.integer(key, low=low, high=high) if self.has(key) else None

    def number(self, key: str, default: float | None = None, *, low: float, high: float) -> float:
        """A number in [low, high]."""
        expected = f"a number from {low:g} to {high:g}"
        value = self._take(key, expected, default is None)
        if value is None:
            return cast(float, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.error(key, f"{show(value)} is not {expected}")
        return float(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """true or false."""
        value = self._take(key, "true or false", False)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, f"{show(value)} is not true or false")
        return value

    def span(self, key: str, default: tuple[float, float], *, low: float, high: float) -> tuple[float, float]:
        """[from, to], two numbers in [low, high], ascending."""
        value = self._take(key, "", False)
        if value is None:
            return default
        good = isinstance(value, list) and len(value) == 2
        good = good and all(isinstance(v, int | float) and not isinstance(v, bool) for v in cast(list[object], value))
        if good:
            first, last = (float(v) for v in cast(list[float], value))
            if low <= first <= last <= high:
                return (first, last)
        raise self.error(key, f"{show(value)} is not [from, to], ascending, within {low:g} to {high:g}")

    def names(
        self, key: str, default: tuple[str, ...], *, allowed: Sequence[str], pattern: str = "(?!)"
    ) -> tuple[str, ...]:
        """A list of names, each in `allowed` or matching `pattern`; not empty, none twice."""
        value = self._take(key, "", False)
        if value is None:
            return default
        if not isinstance(value, list) or not value:
            raise self.error(key, f"{show(value)} is not a list of names out of {', '.join(allowed)}")
        for name in value:
            if not isinstance(name, str) or (name not in allowed and re.fullmatch(pattern, name) is None):
                raise self.error(key, f"{show(name)} is not one of {', '.join(allowed)}{did_you_mean(name, allowed)}")
        if len(set(value)) != len(value):
            raise self.error(key, f"{show(value)} names something twice")
        return tuple(value)

    def table(self, key: str) -> Table:
        """A table, empty when absent."""
        self._known.add(key)
        return Table(self.source, (*self.path, key), self.values.get(key, {}))

    def tables(self, key: str) -> list[Table]:
        """An array of tables, empty when absent."""
        self._known.add(key)
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.error(key, f"{show(value)} is not a list of tables")
        return [Table(self.source, (*self.path, key, index), item) for index, item in enumerate(value)]

    def raw(self, key: str) -> object:
        """The value as TOML has it, unchecked; None where the key is absent."""
        self._known.add(key)
        return self.values.get(key)

    def properties(self) -> dict[str, str]:
        """All keys as server.properties text: true/false, numbers as written. Marks every key."""
        out: dict[str, str] = {}
        for key, value in _flatten(self.values).items():
            if isinstance(value, bool):
                out[key] = "true" if value else "false"
            elif isinstance(value, str | int | float):
                out[key] = str(value)
            else:
                raise self.error(key, f"{show(value)} is not text, a number, true or false")
        self._known.update(self.values)
        return out

    def finish(self) -> None:
        """Refuse keys that nobody read."""
        for key in self.values:
            if key not in self._known:
                known = sorted(self._known)
                raise self.error(key, f"unknown key{did_you_mean(key, known)}; known here: {', '.join(known)}")


def _flatten(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Unquoted dotted keys (`a.b = 1`) mean the same as quoted ones ("a.b" = 1) where names hold dots."""
    out: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            out.update(_flatten(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value
    return out


def did_you_mean(name: object, known: Sequence[str]) -> str:
    """The known name that is most like a wrong one, as the end of a message; nothing where none is like it."""
    close = difflib.get_close_matches(str(name), known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def show(value: object) -> str:
    """A TOML value as an error shows it, cut at 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
