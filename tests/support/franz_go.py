"""The client of tests/interop/franz, built once: the fixture `franz`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCES = Path(__file__).resolve().parents[1] / "interop" / "franz"


@pytest.fixture(scope="session")
def franz(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its program, of which `main.go` says what it takes. Go's own cache keeps what it needs from the Internet."""
    if shutil.which("go") is None:
        pytest.skip("needs go on the PATH, 1.26 or newer")
    program = tmp_path_factory.mktemp("franz") / "franz"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=_SOURCES, check=True, timeout=280)
    return str(program)
