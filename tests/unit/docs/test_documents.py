"""Documents fit a line, and each document, decision and guarantee that something names is in this repository."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tools import guarantees

ROOT = Path(__file__).resolve().parents[3]
WIDTH = 120
_FOLDERS = ("broker", "harness", "nemesis", "checkers", "benchmarks", "tools", "tests", "docs", "examples")
_LEFT_OUT = {"__pycache__", "results", "build"}
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_DOCUMENT = re.compile(r"(?<![\w.-])((?:[\w.-]+/|\.\./)*[\w-]+\.md)\b(?!/)")
_DECISION = re.compile(r"\bADRs?,? (\d+)(?:(?:,| and) (\d+))*|docs/adr/(\d{4})|\badr/(\d{4})")
_GUARANTEE = re.compile(r"(?<![\w.\-/'\"`=#{])([RCLKHV])(\d{1,2})(?![\w\-/'\"`=}])")
_SLASHED = re.compile(r"(?<![\w.\-/'\"`=#{])[RCLKHV]\d{1,2}(?:/[RCLKHV]\d{1,2})+(?![\w\-/'\"`=}])")
_MODULE = re.compile(r"`((?:broker\.(?!id\b|rack\b)|core\.|harness\.|nemesis\.|checkers\.|benchmarks\.)\w+(?:\.\w+)*)`")
_SOURCE = re.compile(r"(?<![\w/<.])((?:broker|harness|nemesis|checkers|benchmarks|tools|tests)/[a-z_0-9/]+\.py)\b")
_RULE = re.compile(r"\b[Rr]ules? (\d+)\b")
_RULES = {
    number
    for cell in re.findall(r"^\| (\d[\d, ]*) \|", (ROOT / "docs" / "checkers.md").read_text("utf-8"), re.MULTILINE)
    for number in re.findall(r"\d+", cell)
}
_GUARANTEES = {entry.id for entry in guarantees.read_table()}
_DECISIONS = {path.name[:4] for path in (ROOT / "docs" / "adr").glob("0*.md")}
_PATH = re.compile(r"`((?:broker|harness|nemesis|checkers|benchmarks|tools|tests|docs|examples)/[\w./*<>-]+)`")
_CHRONICLE = re.compile(
    r"\b(?:session [1-9]\d?\b(?! s\b)|(?:first|second|third|[a-z]+th) session\b|landings?\b|issues? [1-9]\d?\b)",
    re.IGNORECASE,
)
_FILE_WITH_NAMES = re.compile(r"`((?:\w+/)+\w+\.py)`\s+\(((?:[^()`]|`[^`]*`)*)\)")
# Documents of other projects that this one names.
_OF_OTHERS = {"clients/src/main/resources/common/message/README.md"}


def files(*suffixes: str) -> list[Path]:
    """The files of the repository that end in one of these."""
    found = chain(ROOT.glob("*"), *((ROOT / folder).rglob("*") for folder in _FOLDERS))
    return sorted(path for path in found if path.suffix in suffixes and not _LEFT_OUT & set(path.parts))


DOCUMENTS = files(".md")
SOURCES = files(".py", ".toml", ".txt", ".java", ".c", ".js")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """What a source says in words, each with its line: docstrings, comments, and other strings; elsewhere each line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    with path.open("rb") as file:
        yield from (
            (token.start[0], token.string) for token in tokenize.tokenize(file.readline) if token.string[:1] == "#"
        )
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from enumerate(node.value.splitlines(), node.lineno)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_lines_of_documents_fit(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert not [number for number, line in enumerate(lines, 1) if len(line) > WIDTH and not line.startswith("|")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_of_documents_lead_to_files(path: Path) -> None:
    links = [link for link in _LINK.findall(path.read_text(encoding="utf-8")) if "://" not in link]
    assert not [link for link in links if not (path.parent / link).exists()]


def is_here(mention: str, path: Path) -> bool:
    """A document is named by its path from the root, from the file that names it, or by its name in docs/."""
    return any((folder / mention).exists() for folder in (ROOT, path.parent, ROOT / "docs", ROOT / "docs" / "adr"))


def is_module(name: str) -> bool:
    """`broker.core.replication.leader`, also without `broker.`, and with the name of something in it."""
    for place in (ROOT, ROOT / "broker"):
        path, parts = place, name.split(".")
        while parts and (path / parts[0]).is_dir():
            path /= parts.pop(0)
        if path == place:
            continue
        file = path / f"{parts[0]}.py" if parts else path
        if not parts or (len(parts) == 1 and file.exists()):
            return True
        if not file.exists():
            file, parts = path / "__init__.py", [parts[0], *parts]
        return file.exists() and re.search(rf"\b{parts[1]}\b", file.read_text(encoding="utf-8")) is not None
    return False


def missing_of(text: str, path: Path) -> Iterator[str]:
    """Each document, decision, guarantee, rule of the checkers, module and source that a line names and is not here."""
    for found in _DOCUMENT.finditer(text):
        if found[1] not in _OF_OTHERS and not is_here(found[1], path):
            yield found[1]
    for found in _DECISION.finditer(text):
        yield from (f"ADR {digits}" for digits in re.findall(r"\d+", found[0]) if digits.zfill(4) not in _DECISIONS)
    named = [*(found[0] for found in _GUARANTEE.finditer(text))]
    named += [id_ for found in _SLASHED.finditer(text) for id_ in found[0].split("/")]
    yield from (id_ for id_ in named if id_ not in _GUARANTEES)
    yield from (f"rule {found[1]}" for found in _RULE.finditer(text) if found[1] not in _RULES)
    yield from (found[1] for found in _MODULE.finditer(text) if not is_module(found[1]))
    if ROOT / "tests" not in path.parents:  # tests name files of small trees that they make
        yield from (found[1] for found in _SOURCE.finditer(text) if not (ROOT / found[1]).exists())
    if re.search(r"\bthe design\b|\bdesign/", text):
        yield "a design that is not here"


def unresolved(path: Path) -> list[str]:
    """What a file names and that is not here, with its lines. Code, as against words, counts for nothing."""
    if not any(missing_of(path.read_text(encoding="utf-8"), path)):
        return []
    return [f"{number}: {name}" for number, text in prose(path) for name in missing_of(text, path)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_paths_that_documents_name_lead_to_files(path: Path) -> None:
    named = _PATH.findall(path.read_text(encoding="utf-8"))
    assert not [
        name for name in named if "<" not in name and "results/" not in name and not list(ROOT.glob(name.rstrip("/")))
    ]


def test_files_of_the_map_define_what_it_says_of_them() -> None:
    """Of `path/file.py` (`Class.method`, `function`) each name is defined in that file."""
    found = _FILE_WITH_NAMES.findall((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert len(found) > 40
    missing = []
    for name, listed in found:
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        here = {
            node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        }
        missing += [
            f"{name}: {quoted}"
            for quoted in re.findall(r"`([\w.]+)`", listed)
            if not here.issuperset(quoted.split("."))
        ]
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_documents_hold_no_history_of_the_work(path: Path) -> None:
    """They say what the software does, promises, measures and cannot do, not when or by whom that was done."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    assert not [f"{number}: {found[0]}" for number, line in lines if (found := _CHRONICLE.search(line))]


@pytest.mark.parametrize("folder", ["", *_FOLDERS])
def test_what_is_named_is_here(folder: str) -> None:
    paths = [
        path
        for path in (*DOCUMENTS, *SOURCES)
        if (name_of(path).split("/")[0] == folder) or (not folder and path.parent == ROOT)
    ]
    missing = {name_of(path): unresolved(path) for path in paths if path != Path(__file__)}
    assert not {name: found for name, found in missing.items() if found}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Source: R12 and L6 of docs/guarantees.md; docs/adr/0010, ADR 7, checkers.md.", []),
        ("(H99), R0: see performance.md and ADR 99.", ["performance.md", "ADR 99", "H99", "R0"]),
        ("C5 of the design", ["a design that is not here"]),
        ("as the design has it", ["a design that is not here"]),
        ("L1/R99, rule 2 of docs/checkers.md, rules 98", ["R99", "rule 98"]),
        ("`core.replication.leader`, `broker.core.replication.leader.Leader`, `broker.id`, `broker.core.admin`", []),
        ("`core.leader`, `broker.log.Nothing`", ["core.leader", "broker.log.Nothing"]),
        ("broker/cli.py and checkers/black_box/nothing.py", ["checkers/black_box/nothing.py"]),
        ("names = ('R99', x.C50, -K77, CC21)", []),
    ],
)
def test_what_is_missing_is_found_in_the_text(text: str, missing: list[str]) -> None:
    assert list(missing_of(text, ROOT / "broker" / "cli.py")) == missing
