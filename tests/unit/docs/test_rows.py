"""docs/rows.md names files and functions that are there, and every row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "rows.md").read_text(encoding="utf-8")
FOLDERS = {"U": "unit", "P": "property", "S": "scenarios", "I": "integration", "X": "interop"}
TABLE_LINE = re.compile(r"^\| (?P<row>[^|]+) \|(?P<rest>.*)\|$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")


def rows() -> dict[str, str]:
    """The rest of each table line by its first cell."""
    return {found["row"].strip(): found["rest"] for found in TABLE_LINE.finditer(TEXT)}


def files_of(line: str) -> list[list[Path]]:
    """What each quoted path of a line stands for; a bare file name is in the folder named last."""
    found: list[list[Path]] = []
    folder = ROOT / "tests"
    for quoted in QUOTED.findall(line):
        if not quoted.endswith((".py", ".txt", "/")) or " " in quoted:
            continue
        first, _, rest = quoted.partition("/")
        path = ROOT / "tests" / FOLDERS.get(first, first) / rest if rest or quoted.endswith("/") else folder / quoted
        folder = path if quoted.endswith("/") else path.parent
        found.append(sorted(path.parent.glob(path.name)) if "*" in path.name else [path])
    return found


def test_every_row_of_the_three_families_has_a_line() -> None:
    wanted = {*(f"R{n}" for n in range(1, 14)), *(f"C{n}" for n in range(1, 11)), *(f"L{n}" for n in range(1, 9))}
    assert wanted <= rows().keys()


@pytest.mark.parametrize("row", sorted(rows().keys() - {"row", "clause", "---"}))
def test_files_that_a_row_names_are_there(row: str) -> None:
    files = files_of(rows()[row])
    assert files, "no test is named"
    for alternatives in files:
        assert alternatives
        for path in alternatives:
            assert path.exists(), path


@pytest.mark.parametrize("row", sorted(rows().keys() - {"row", "clause", "---"}))
def test_functions_that_a_row_names_are_there(row: str) -> None:
    line = rows()[row]
    sources = "\n".join(
        path.read_text(encoding="utf-8") for one in files_of(line) for path in one if path.suffix == ".py"
    )
    functions = re.findall(r"def test_(\w+)", sources)
    for quoted in QUOTED.findall(line):
        fragment = quoted.strip("…")
        if re.fullmatch(r"[a-z][a-z0-9_]*_[a-z0-9_]*", fragment):
            assert any(fragment in name for name in functions), quoted
