"""A matrix file: which runs a night is made of, as the product of its axes (docs/nightly.md).

Decides the keys of a matrix file, and how a cell's run file is put together: the file that one of its values names,
then [base], then the values of its axes, in their order. Must not know what a run file holds: what comes out is read as
any run file is. Invariants: no key is ignored; two cells never share a name.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.plan.run_file import EXPECTATION
from harness.plan.toml_source import PlanError, Source, Table, did_you_mean, parse, show
from harness.plan.toml_text import document

_NAME = "[a-z0-9-]+"
_NO_KEY_OF_RUNS = "file"


@dataclass(frozen=True, slots=True)
class Cell:
    """One run file of the matrix. values: axis → value. text: of the run file; expectation: of `<name>.expect.toml`
    beside the file that it begins with.
    """

    name: str
    values: Mapping[str, str]
    text: str
    expectation: str | None


@dataclass(frozen=True, slots=True)
class Night:
    """How nights are run: each None where neither file nor command line says. minutes: None for no limit.

    fresh_seeds: whether every night has seeds of its own. keep_days, keep_gb: of runs that came out as expected.
    """

    name: str = "nightly"
    seeds: int | None = None
    fresh_seeds: bool = False
    minutes: float | None = None
    lanes: int | None = None
    retries: int = 1
    keep_days: float | None = None
    keep_gb: float | None = None
    webhook: str | None = None
    shrink_minutes: float = 60.0


def is_matrix(path: Path, text: str) -> bool:
    """Whether a file is a matrix rather than a run file: it has axes, which no run file has. Raises PlanError."""
    return "axis" in parse(str(path), text)[1]


def parse_matrix(path: Path, text: str, without: Sequence[str] = ()) -> tuple[Night, list[Cell]]:
    """without: `axis=value`, left out besides what the file leaves out.

    Raises PlanError with file, line, key, value found and what is allowed; reads the run files that values name.
    """
    source, values = parse(str(path), text)
    top = Table(source, (), values)
    night = Night(
        name=top.text("name", "nightly", pattern=_NAME),
        seeds=top.optional_integer("seeds", low=1, high=1_000_000),
        fresh_seeds=_flag(top, "fresh_seeds"),
        minutes=top.number("minutes", low=0.1, high=100_000) if top.has("minutes") else None,
        lanes=top.optional_integer("lanes", low=1, high=256),
        retries=top.integer("retries", 1, low=0, high=10),
        keep_days=top.number("keep_days", low=0, high=100_000) if top.has("keep_days") else None,
        keep_gb=top.number("keep_gb", low=0, high=1_000_000) if top.has("keep_gb") else None,
        shrink_minutes=top.number("shrink_minutes", 60.0, low=0, high=100_000),
        webhook=top.text("webhook", pattern="https?://.+") if top.has("webhook") else None,
    )
    base = top.table("base")
    _no_file(base)
    axes = _axes(top.table("axis"))
    leave_out = [_left_out(table, axes) for table in top.tables("leave_out")]
    leave_out += [_without(each, path, axes) for each in without]
    top.finish()
    cells = []
    for combination in itertools.product(*axes.values()):
        chosen = dict(zip(axes, combination, strict=True))
        if not any(all(chosen[axis] in some for axis, some in rule.items()) for rule in leave_out):
            cells.append(_cell(path, source, base.values, axes, chosen))
    if not cells:
        raise source.error(("leave_out",), "leaves nothing: every combination of the axes is left out")
    names = [cell.name for cell in cells]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise source.error(("axis",), f"two combinations are called {twice[0]!r}; give their values other names")
    return night, cells


def _flag(table: Table, key: str) -> bool:
    value = table.raw(key)
    if value is not None and not isinstance(value, bool):
        raise table.error(key, f"{show(value)} is not true or false")
    return bool(value)


def _no_file(table: Table) -> None:
    if _NO_KEY_OF_RUNS in table.values:
        raise table.error(_NO_KEY_OF_RUNS, "stands in a value of an axis, as [axis.workload.groups] file = …")


def _axes(table: Table) -> dict[str, dict[str, Table]]:
    """axis → value → its table."""
    axes: dict[str, dict[str, Table]] = {}
    for axis in table.values:
        of_axis = table.table(axis)
        axes[axis] = {name: of_axis.table(name) for name in of_axis.values}
        for name in (axis, *axes[axis]):
            if re.fullmatch(_NAME, name) is None:
                raise of_axis.error(name, f"{show(name)} is not a name of small letters, digits and hyphens")
    return axes


def _left_out(table: Table, axes: Mapping[str, Mapping[str, Table]]) -> dict[str, Sequence[str]]:
    """A rule: a cell is left out where each axis that the rule names has one of the values that it names."""
    rule: dict[str, Sequence[str]] = {}
    for axis in table.values:
        if axis not in axes:
            raise table.error(axis, f"{show(axis)} is no axis{did_you_mean(axis, list(axes))}: {', '.join(axes)}")
        value = table.raw(axis)
        names = value if isinstance(value, list) else [value]
        for name in names:
            if name not in axes[axis]:
                known = ", ".join(axes[axis])
                raise table.error(axis, f"{show(name)} is none of {known}{did_you_mean(name, list(axes[axis]))}")
        rule[axis] = [str(name) for name in names]
    if not rule:
        raise table.source.error(table.path, "names no axis, and would leave everything out")
    return rule


def _without(given: str, path: Path, axes: Mapping[str, Mapping[str, Table]]) -> dict[str, Sequence[str]]:
    """The rule that leaves one value of one axis out."""
    axis, separator, value = given.partition("=")
    if not separator:
        raise PlanError(f"--leave-out: {given!r} is not AXIS=VALUE, such as nodes=docker")
    if axis not in axes:
        known = ", ".join(axes)
        raise PlanError(f"--leave-out {given}: {path} has no axis {axis!r}{did_you_mean(axis, list(axes))}: {known}")
    if value not in axes[axis]:
        hint = did_you_mean(value, list(axes[axis]))
        raise PlanError(f"--leave-out {given}: {value!r} is none of {', '.join(axes[axis])}{hint}")
    return {axis: [value]}


def _cell(
    path: Path,
    source: Source,
    base: Mapping[str, object],
    axes: Mapping[str, Mapping[str, Table]],
    chosen: Mapping[str, str],
) -> Cell:
    values: dict[str, object] = {}
    expectation = None
    tables = [axes[axis][value] for axis, value in chosen.items()]
    beginnings = [table for table in tables if _NO_KEY_OF_RUNS in table.values]
    if len(beginnings) > 1:
        a, b = (".".join(map(str, table.path)) for table in beginnings[:2])
        raise source.error(beginnings[1].path, f"{a} and {b} both name a file to begin with; one axis may")
    for table in beginnings:
        begin = path.parent / table.text(_NO_KEY_OF_RUNS)
        values = _read(table, begin)
        beside = begin.with_suffix(EXPECTATION)
        expectation = beside.read_text(encoding="utf-8") if beside.is_file() else None
    for given in (base, *(table.values for table in tables)):
        values = _merged(values, {key: value for key, value in given.items() if key != _NO_KEY_OF_RUNS})
    name = "-".join(chosen.values()) or "run"
    # A seed of the run file's own would be every seed's.
    values = {"name": name, **{key: value for key, value in values.items() if key not in ("name", "seed")}}
    return Cell(name, dict(chosen), document(values), expectation)


def _read(table: Table, begin: Path) -> dict[str, object]:
    try:
        text = begin.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise table.error(_NO_KEY_OF_RUNS, f"{begin}: cannot be read: {error}") from None
    return parse(str(begin), text)[1]


def _merged(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Tables key by key, everything else as a whole; what stands in `over` counts."""
    out = dict(under)
    for key, value in over.items():
        below = out.get(key)
        out[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return out


def usable(path: Path, cell: Cell, error: PlanError) -> PlanError:
    """What is wrong with the run file of a cell, as an error of the matrix that it came from."""
    where = ", ".join(f"{axis} {value}" for axis, value in cell.values.items())
    return PlanError(f"{path}: the run of {where}: {error}")
