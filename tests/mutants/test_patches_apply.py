"""Each planted bug still fits the broker, and names checkers and a run file that are there. No I/O but files."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.verdicts.catalogue import BY_NAME
from harness.runs.run_files import load as load_plan
from tests.mutants.lab import with_source
from tests.mutants.patches import (
    HERE,
    ROOT,
    Edit,
    Mutant,
    PatchDoesNotApply,
    apply,
    load,
    mutants,
)

MUTANTS = pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)


@MUTANTS
def test_patch_of_a_mutant_applies_and_changes_what_it_names(mutant: Mutant, tmp_path: Path) -> None:
    apply(mutant, tmp_path)
    edited = {edit.file for edit in mutant.edits}
    for path in sorted((tmp_path / "broker").rglob("*.py")):
        name = str(path.relative_to(tmp_path))
        text = path.read_text()
        assert (text != (ROOT / name).read_text()) == (name in edited), name
        if name in edited:
            compile(text, name, "exec")


@MUTANTS
def test_mutant_names_checkers_that_exist(mutant: Mutant) -> None:
    assert set(mutant.finds) <= BY_NAME.keys()


@MUTANTS
def test_mutant_runs_a_run_file_with_its_own_source(mutant: Mutant, tmp_path: Path) -> None:
    assert load_plan(mutant.run).system.source is None
    mutated = tmp_path / "mutated.toml"
    mutated.write_text(with_source(mutant.run.read_text(), tmp_path))
    plan = load_plan(mutated)
    assert plan.system.source == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('mistake = "x"\nedit = [{}]', "finds, run: missing"),
        ('mistake = "x"\nedit = [{}]\nfinds = []\nrun = "r"', "finds: .* is not a non-empty list"),
        ('mistake = "x"\nedit = [{file = "a"}]\nfinds = ["a"]\nrun = "r"', "edit 0: its keys are"),
        ('mistakes = "x"', "mistakes: unknown key"),
    ],
)
def test_mutant_in_another_form_is_refused(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "m.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=says):
        load(file)


def test_every_run_file_of_the_mutants_is_used() -> None:
    assert {mutant.run for mutant in mutants()} == set((HERE / "runs").glob("*.toml"))


@pytest.mark.parametrize(
    ("old", "says"), [("no such line", "0 times"), ("from", "times instead of once"), ("import", "instead of once")]
)
def test_patch_that_does_not_fit_exactly_once_is_refused(old: str, says: str, tmp_path: Path) -> None:
    edit = Edit("broker/core/replication/leader.py", old, "")
    with pytest.raises(PatchDoesNotApply, match=says):
        apply(Mutant("m", "x", ("lost-write",), tmp_path, (edit,)), tmp_path)


def test_patch_of_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    edit = Edit("broker/core/gone.py", "a", "b")
    with pytest.raises(PatchDoesNotApply, match="is not there"):
        apply(Mutant("m", "x", ("lost-write",), tmp_path, (edit,)), tmp_path)


def test_patch_of_a_compiled_broker_is_refused_before_anything_is_copied(tmp_path: Path) -> None:
    source = tmp_path / "compiled"
    package = source / "broker"
    package.mkdir(parents=True)
    (package / "leader.py").write_text("old")
    (package / "hot__mypyc.cpython-311-x86_64-linux-gnu.so").write_bytes(b"")
    mutant = Mutant("m", "x", ("lost-write",), tmp_path, (Edit("broker/leader.py", "old", "new"),))
    with pytest.raises(PatchDoesNotApply, match=r"hot__mypyc\..* is a compiled module and would run instead"):
        apply(mutant, tmp_path / "target", source)
    assert not (tmp_path / "target").exists()
