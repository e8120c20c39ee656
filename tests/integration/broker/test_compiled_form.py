"""The hot modules stay such that mypyc takes them; `make test-compiled`, nightly, runs what it makes of them."""

from __future__ import annotations

import ast
import os
import runpy
import shutil
import subprocess
import sys
from collections import defaultdict
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


def test_no_hot_function_gives_exceptions_of_two_kinds_one_name() -> None:
    """mypyc gives a name one type in all of a function, mypy one in each clause: the second kind raises TypeError."""
    hot = runpy.run_path(str(ROOT / "setup.py"))["FILES"]
    for file in hot:
        for function in ast.walk(ast.parse((ROOT / file).read_text())):
            if isinstance(function, ast.FunctionDef):
                kinds: dict[str, set[str]] = defaultdict(set)
                for handler in ast.walk(function):
                    if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type:
                        kinds[handler.name].add(ast.unparse(handler.type))
                twice = {name: found for name, found in kinds.items() if len(found) > 1}
                assert not twice, f"{file}, {function.name}: {twice}"


def test_nothing_is_compiled_unless_it_is_requested(tree: Path) -> None:
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
