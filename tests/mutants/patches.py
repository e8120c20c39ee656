"""Planted bugs: what each one is, and a copy of the broker that has it.

A mutant is a TOML file in this folder: `mistake` (one sentence), `finds` (checkers, one of which at least must fire),
`run` (the run file that brings the bug out), and edits (`file`, `old`, `new`). `mix` names the run file of
`examples/runs` whose random faults come near the bug, where the one for the run's workload does not; it is empty where
none does. `old` must occur exactly once in its file: a patch that no longer fits the broker is an error, never a
silent no-op. So is a broker with compiled modules, which would run instead of the sources that were patched.
`python -m tests.mutants.patches NAME FOLDER` makes the copy; `[system] source = "FOLDER"` in a run file runs it.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from harness.nodes.compiled import compiled_modules

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MIXES = ROOT / "examples" / "runs"

_TEXTS_AND_LISTS = {"mistake": str, "finds": list, "run": str, "mix": str, "edit": list}


class PatchDoesNotApply(Exception):
    """The text names mutant, file, and how often the text to be replaced was found; or what stands in the way."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `old`, which occurs once in `file` (relative to the source's root), by `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug, that a run file brings out. run: absolute path. mix: the same, "" for none, None where the
    file does not say.
    """

    name: str
    mistake: str
    finds: tuple[str, ...]
    run: Path
    edits: tuple[Edit, ...]
    mix: str | None = None


def load(path: Path) -> Mutant:
    """Read a mutant's file. Raises ValueError, naming file and key, for what is not in the form above."""
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    for key in values.keys() - _TEXTS_AND_LISTS.keys():
        raise ValueError(f"{path}: {key}: unknown key; keys are {', '.join(_TEXTS_AND_LISTS)}")
    for key, value in values.items():
        kind = _TEXTS_AND_LISTS[key]
        if not isinstance(value, kind) or not (value or key == "mix"):
            raise ValueError(f"{path}: {key}: {value!r} is not a non-empty {kind.__name__}")
    if missing := _TEXTS_AND_LISTS.keys() - {"mix"} - values.keys():
        raise ValueError(f"{path}: {', '.join(sorted(missing))}: missing")
    edits = []
    for number, edit in enumerate(values["edit"]):
        if edit.keys() != {"file", "old", "new"}:
            raise ValueError(f"{path}: edit {number}: its keys are {sorted(edit)}; they must be file, old, new")
        edits.append(Edit(**edit))
    run = (HERE / values["run"]).resolve()
    return Mutant(path.stem, values["mistake"], tuple(values["finds"]), run, tuple(edits), values.get("mix"))


def mutants() -> list[Mutant]:
    """All of this folder, by name."""
    return [load(path) for path in sorted(HERE.glob("*.toml"))]


def apply(mutant: Mutant, target: Path, source: Path = ROOT) -> None:
    """Copy the `broker` package of `source` into `target`, with the mutant's edits. Raises PatchDoesNotApply."""
    compiled = compiled_modules(source / "broker")
    if compiled:
        raise PatchDoesNotApply(
            f"{mutant.name}: {compiled[0]} is a compiled module and would run instead of the patched source;"
            " patch a source folder without compiled modules"
        )
    shutil.copytree(source / "broker", target / "broker", ignore=shutil.ignore_patterns("__pycache__"))
    for edit in mutant.edits:
        file = target / edit.file
        if not file.is_file():
            raise PatchDoesNotApply(f"{mutant.name}: {edit.file} is not there any more")
        text = file.read_text(encoding="utf-8")
        found = text.count(edit.old)
        if found != 1:
            raise PatchDoesNotApply(
                f"{mutant.name}: {edit.file} holds the text to be replaced {found} times instead of once:\n{edit.old}"
            )
        file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m tests.mutants.patches NAME FOLDER")
    apply(load(HERE / f"{sys.argv[1]}.toml"), Path(sys.argv[2]))
