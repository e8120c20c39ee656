"""What `make demo` says of the exit code of its run, which make turns into 2."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
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
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name, ends in (("python", 0), ("highwater", code)):
        (binaries / name).write_text(f"#!/bin/sh\nexit {ends}\n")
        (binaries / name).chmod(0o755)
    (tmp_path / ".lab").touch()
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "demo", f"VENV={tmp_path}"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == (0 if code == 0 else 2)
    lines = done.stderr.splitlines()
    assert lines[0].startswith(said) if said else lines == []
