"""Writes docs/guarantees.md: each guarantee, in a sentence, and the tests that show it.

A test says what it shows by a mark, `pytest.mark.guarantee("R7", "R12")`, on itself, its class, or its module
(`pytestmark`); a scenario by a comment, `# guarantee: R7 R12`. The guarantees stand in tests/guarantees.toml. Marks are
read from the sources, without running them, so they are written out as literals.

`make guarantees` writes the file; tests/unit/docs/test_guarantees.py fails where it is not what this would write.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path("tests/guarantees.toml")
PAGE = Path("docs/guarantees.md")
_WIDTH = 120
_SCENARIO_MARK = re.compile(r"^# guarantee: (.+)$", re.MULTILINE)
_HEAD = """# What holds, and which tests show it

Each guarantee of the broker and the lab, in a sentence, with the tests that show it. What none of them promises, and
what a guarantee leaves open, stands in [limits.md](limits.md). Letters are families: R replication, C controller and
ZooKeeper, L log, K clients, H harness and nemesis, V checkers and reports. Guarantees of a narrower subject have names.

Paths are below `tests/`. A file without functions shows the guarantee by most of its tests. *Nightly*: too long for
`make test`, run by `make nightly`. This page is made by `make guarantees` from [the table](../tests/guarantees.toml)
and the marks on the tests (`pytest.mark.guarantee`): mark the test and make the page anew instead of editing it.
"""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One entry of the table. `id` is what marks name, and what code and documents may name."""

    id: str
    family: str
    title: str
    sentence: str


@dataclass(frozen=True, slots=True, order=True)
class Shown:
    """One mark: the file below tests/ that shows a guarantee, or one function of it ("" for the whole file)."""

    path: str
    function: str
    nightly: bool


def read_table(root: Path = ROOT) -> list[Guarantee]:
    """The guarantees in order. Raises TypeError for an unknown or missing key, ValueError for an id given twice."""
    document = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))
    table = [
        Guarantee(family=family["name"], **{key: " ".join(text.split()) for key, text in entry.items()})
        for family in document["family"]
        for entry in family["guarantee"]
    ]
    if len({entry.id for entry in table}) != len(table):
        raise ValueError(f"{TABLE} gives an id twice")
    return table


def _marks(expressions: list[ast.expr]) -> tuple[set[str], bool]:
    """What decorators, or the value of a `pytestmark`, say: the guarantees named, and whether one mark is `nightly`."""
    ids: set[str] = set()
    nightly = False
    for expression in expressions:
        if isinstance(expression, ast.List | ast.Tuple):
            inner_ids, inner_nightly = _marks(expression.elts)
            ids |= inner_ids
            nightly |= inner_nightly
            continue
        name = ast.unparse(expression.func if isinstance(expression, ast.Call) else expression)
        nightly |= name == "pytest.mark.nightly"
        if name == "pytest.mark.guarantee":
            if not isinstance(expression, ast.Call):
                raise ValueError("a guarantee mark without a guarantee")
            ids |= {str(ast.literal_eval(argument)) for argument in expression.args}
    return ids, nightly


def _module_marks(tree: ast.Module) -> tuple[set[str], bool]:
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets)
    ]
    return _marks(values)


def _tests(node: ast.Module | ast.ClassDef) -> Iterator[tuple[str, set[str], bool]]:
    """Each test function below a node: its name, the guarantees that it and its classes name, whether it is nightly."""
    for child in node.body:
        if isinstance(child, ast.ClassDef):
            ids, nightly = _marks(child.decorator_list)
            for name, inner_ids, inner_nightly in _tests(child):
                yield name, inner_ids | ids, inner_nightly or nightly
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test_"):
            yield child.name, *_marks(child.decorator_list)


def _of_module(path: Path, name: str) -> Iterator[tuple[str, Shown]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module_ids, module_nightly = _module_marks(tree)
    tests = list(_tests(tree))
    whole_nightly = module_nightly or (bool(tests) and all(nightly for _, _, nightly in tests))
    for row in module_ids:
        yield row, Shown(name, "", whole_nightly)
    for function, ids, nightly in tests:
        for row in ids - module_ids:
            yield row, Shown(name, function, nightly or module_nightly)


def collect(root: Path = ROOT) -> dict[str, list[Shown]]:
    """What the tests below `root`/tests show, by the id that they name, known or not."""
    shown: dict[str, list[Shown]] = {}
    folder = root / "tests"
    for path in sorted([*folder.rglob("test_*.py"), *folder.glob("scenarios/*.txt")]):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".py":
            marks = list(_of_module(path, name))
        else:
            found = _SCENARIO_MARK.findall(path.read_text(encoding="utf-8"))
            marks = [(row, Shown(name, "", nightly=False)) for line in found for row in line.split()]
        for row, where in marks:
            shown.setdefault(row, []).append(where)
    return {row: sorted(places) for row, places in shown.items()}


def _lines(places: list[Shown]) -> Iterator[str]:
    """One list item for each file: its path, then the functions, where only some of them show the guarantee."""
    for path in sorted({place.path for place in places}):
        here = [place for place in places if place.path == path]
        functions = [place for place in here if place.function]
        if not functions:
            yield f"- `{path}`" + (" *(nightly)*" if here[0].nightly else "")
            continue
        yield f"- `{path}`:"
        yield from (f"  - `{place.function}`" + (" *(nightly)*" if place.nightly else "") for place in functions)


def _wrapped(text: str) -> str:
    lines: list[str] = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def page(root: Path = ROOT) -> str:
    """The text of docs/guarantees.md."""
    shown = collect(root)
    parts = [_HEAD]
    family = ""
    for entry in read_table(root):
        if entry.family != family:
            family = entry.family
            parts.append(f"\n## {family}\n")
        parts.append(f"\n### {entry.id}. {entry.title}\n\n{_wrapped(entry.sentence)}\n\n")
        parts.append("".join(f"{line}\n" for line in _lines(shown.get(entry.id, []))))
    return "".join(parts)


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(), encoding="utf-8")
