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
FUNCTION = re.compile(r"[a-z0-9_]+…?")


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


def functions_of(line: str) -> list[tuple[str, list[Path]]]:
    """What a line quotes of the names of test functions, each with the files that it names before it."""
    found: list[tuple[str, list[Path]]] = []
    for quoted in QUOTED.finditer(line):
        if FUNCTION.fullmatch(quoted[1]):
            named = files_of(line[: quoted.start()])
            found.append((quoted[1], named[-1] if named else []))
    return found


def is_named(fragment: str, function: str) -> bool:
    """A fragment begins where a word of the function's name does; one without dots ends where one does, too."""
    end = "" if fragment.endswith("…") else r"(?![a-z0-9])"
    return re.search(rf"(?<![a-z0-9]){fragment.strip('…')}{end}", function) is not None


@pytest.mark.parametrize("row", sorted(rows().keys() - {"row", "clause", "---"}))
def test_functions_that_a_row_names_are_in_the_file_that_it_names_before_them(row: str) -> None:
    for fragment, files in functions_of(rows()[row]):
        sources = "\n".join(path.read_text(encoding="utf-8") for path in files if path.suffix == ".py")
        functions = re.findall(r"def test_(\w+)", sources)
        assert any(is_named(fragment, function) for function in functions), f"{fragment} in {files}"


def test_functions_are_looked_for_in_the_file_before_them_only() -> None:
    line = "`U/docs/test_rows.py` (`every_row…`, `rows`), `U/core/test_isr.py` (is, `cleanup.policy`, `a b`, `bounce…`)"
    rows_file, isr_file = (ROOT / "tests" / "unit" / path for path in ("docs/test_rows.py", "core/test_isr.py"))
    assert functions_of(line) == [("every_row…", [rows_file]), ("rows", [rows_file]), ("bounce…", [isr_file])]


@pytest.mark.parametrize(
    ("fragment", "named"),
    [("every_r…", True), ("row_of", True), ("ow_of…", False), ("row_o", False), ("line", True), ("ine", False)],
)
def test_fragment_is_made_of_words_of_the_name(fragment: str, named: bool) -> None:
    assert is_named(fragment, "every_row_of_the_three_families_has_a_line") is named
