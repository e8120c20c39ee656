"""Code of other packages that a run uses is part of what the run was made with."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import cast

import pytest

from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.runs.outside_code import changed, outside_code, outside_names, run_code
from harness.runs.run_info import run_json
from nemesis.catalogue import FAMILIES

TOY = {"highwater.workloads": "turns = toy_code.work:Toy", "highwater.faults": "toys = toy_code.fault:FAMILY"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed package that brings a workload and a family of faults."""
    folder = tmp_path / "site" / "toy_code"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "work.py").write_text("class Toy:\n    checkers = ()\n")
    (folder / "fault.py").write_text("")
    info = tmp_path / "site" / "toy_code-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-code\nVersion: 1\n")
    (info / "entry_points.txt").write_text("".join(f"[{group}]\n{line}\n" for group, line in TOY.items()))
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in [name for name in sys.modules if name.startswith("toy_code")]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    broker = tmp_path / "source" / "broker"
    broker.mkdir(parents=True)
    (broker / "cli.py").write_text("")
    return tmp_path / "source"


NAMES = [("highwater.workloads", "turns"), ("highwater.faults", "toys")]


def plan(source: Path) -> Plan:
    return parse_plan("x.toml", f'name = "x"\nseed = 1\n[system]\nsource = "{source}"\n[workload]\nkind = "turns"')


def test_names_of_a_plan_are_those_that_other_packages_bring(package: Path, source: Path) -> None:
    assert outside_names(plan(source)) == NAMES[:1]
    assert outside_names(parse_plan("x.toml", 'name = "x"')) == []


def test_digest_of_a_run_counts_the_code_that_it_uses_of_other_packages(package: Path, source: Path) -> None:
    plain, before = run_code(source, []), run_code(source, NAMES)
    of_one, _ = outside_code(NAMES)
    assert (of_one.name, of_one.package, of_one.version) == ("turns", "toy-code", "1")
    (package / "helper.py").write_text("x = 1\n")
    assert len({plain, before, run_code(source, NAMES)}) == 3
    assert run_code(source, []) == plain
    assert outside_code(NAMES)[0].code != of_one.code


def test_module_without_a_package_is_its_own_code(package: Path, source: Path) -> None:
    (package.parent / "single.py").write_text("x = 1\n")
    points = package.parent / "toy_code-1.dist-info" / "entry_points.txt"
    points.write_text("[highwater.faults]\nsolo = single:FAMILY\n")
    names = [(FAMILIES.group, "solo")]
    before = run_code(source, names)
    (package / "work.py").write_text("")
    assert run_code(source, names) == before
    (package.parent / "single.py").write_text("x = 2\n")
    assert run_code(source, names) != before


def test_run_json_names_the_packages_and_shows_when_they_have_changed(
    package: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_json(plan(source), ("highwater",), 0, 0, source / "run.toml")
    (said,) = cast(list[dict[str, str]], run["outside"])
    assert (said["group"], said["name"], said["package"]) == ("highwater.workloads", "turns", "toy-code")
    assert changed(run) is None
    assert changed({"name": "older"}) is None
    (package / "fault.py").write_text("changed = True\n")
    text = changed(run)
    assert text is not None
    assert text.startswith(f"code {run['code']}, now ")
    assert text.endswith("; changed: toy-code (highwater.workloads)")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(package.parent)])
    text = changed(run)
    assert text is not None
    assert text.endswith("; changed: turns (highwater.workloads)")
