"""How `make demo` names the exit code of its run, which make turns into 2; what of its surroundings make hands on."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(target: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`make target` with the programs of folder/bin in place of the installed ones."""
    for name in (".lab", ".dev"):
        (folder / name).touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(
        ["make", target, f"VENV={folder}"],
        cwd=ROOT,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def program(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "highwater ended with 1: invalid (make itself ends with 2 whatever failed)"),
        (2, "highwater ended with 2: unknown ("),
        (254, "highwater ended with 254: wrong usage, or a package is missing ("),
        (255, "highwater ended with 255: the run was not carried out ("),
        (0, ""),
    ],
)
def test_make_demo_names_the_exit_code_of_the_run_and_its_meaning(tmp_path: Path, code: int, said: str) -> None:
    program(tmp_path / "bin" / "python", "exit 0")
    program(tmp_path / "bin" / "highwater", f"exit {code}")
    done = make("demo", tmp_path)
    assert done.returncode == (0 if code == 0 else 2)
    lines = done.stderr.splitlines()
    assert lines[0].startswith(said) if said else lines == []


def test_make_lets_python_keep_what_it_compiles_wherever_it_runs(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python", 'echo "not kept: ${PYTHONDONTWRITEBYTECODE-no}"')
    done = make("guarantees", tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert "not kept: no" in done.stdout.splitlines()
