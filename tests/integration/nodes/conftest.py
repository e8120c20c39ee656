"""A test marked `sandbox` runs in a pytest of its own inside `harness.nodes.sandbox`, where it may make nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.nodes.sandbox import inside_sandbox
from tests.integration.nodes.inner import run_pytest_in_sandbox


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sandbox: runs inside the sandbox")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if pyfuncitem.get_closest_marker("sandbox") is None or inside_sandbox():
        return None
    run_pytest_in_sandbox(pyfuncitem.nodeid)
    return True


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Manifests of the test go here, away from those of real runs."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "highwater" / "runs"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with a package `broker`, for nodes that run none."""
    package = tmp_path / "source" / "broker"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    return tmp_path / "source"
