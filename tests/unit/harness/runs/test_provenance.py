"""Runs of different code look different, compiled modules included, and run.json says which broker was run."""

from __future__ import annotations

import importlib.machinery
from pathlib import Path

import pytest

from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.runs.provenance import code_digest
from harness.runs.run_info import run_json

COMPILED = f"hot__mypyc{importlib.machinery.EXTENSION_SUFFIXES[0]}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    package = tmp_path / "source" / "broker"
    (package / "core").mkdir(parents=True)
    for name in ("__init__.py", "cli.py", "core/leader.py"):
        (package / name).write_text("")
    return tmp_path / "source"


def described(source: Path) -> dict[str, object]:
    plan: Plan = parse_plan("x.toml", f'name = "x"\nseed = 1\n[system]\nsource = "{source}"')
    system = run_json(plan, ("highwater",), 0, 0, source / "run.toml")["system"]
    assert isinstance(system, dict)
    return system


@pytest.mark.parametrize("name", [COMPILED, "core/leader.cpython-399-riscv64-linux-gnu.so", "core/gone.pyc"])
def test_code_digest_is_another_with_any_file_that_can_be_imported(source: Path, name: str) -> None:
    plain = code_digest(source)
    path = source / "broker" / name
    path.write_bytes(b"one")
    one = code_digest(source)
    path.write_bytes(b"two")
    assert len({plain, one, code_digest(source)}) == 3


@pytest.mark.parametrize("name", ["core/notes.txt", "core/__pycache__/leader.cpython-311.pyc"])
def test_code_digest_passes_over_what_is_not_code_of_its_own(source: Path, name: str) -> None:
    plain = code_digest(source)
    path = source / "broker" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"one")
    assert code_digest(source) == plain


def test_run_json_says_where_the_broker_came_from_and_that_it_is_compiled(source: Path) -> None:
    sources = described(source)
    assert (sources["source"], sources["compiled"]) == (str(source), False)
    (source / "broker" / COMPILED).write_bytes(b"")
    assert described(source)["compiled"] is True
