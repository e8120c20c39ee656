"""The hot modules stay such that mypyc takes them; `make test-compiled`, nightly, runs what it makes of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import ROOT


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What setup.py needs, away from the work tree."""
    shutil.copytree(ROOT / "broker", tmp_path / "broker", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _setup(tree: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "-q", "--version"],
        cwd=tree,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_mypyc_takes_every_hot_module(tree: Path) -> None:
    done = _setup(tree, HIGHWATER_COMPILE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    made = {path.name for path in (tree / "build").rglob("__native_*.c")}
    assert "__native_broker___net___loop.c" in made
    assert len(made) > 40


def test_nothing_is_compiled_unless_it_is_asked_for(tree: Path) -> None:
    done = _setup(tree, HIGHWATER_COMPILE="")
    assert done.returncode == 0, done.stderr
    assert not (tree / "build").exists()


def test_missing_mypyc_is_named_with_what_would_bring_it(tree: Path) -> None:
    hidden = tree / "hidden" / "mypyc"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError")
    done = _setup(tree, HIGHWATER_COMPILE="1", PYTHONPATH=str(hidden.parent))
    assert done.returncode == 1
    assert "pip install 'mypy[mypyc]'" in done.stderr
