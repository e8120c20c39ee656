"""A test marked `sandbox` runs in a pytest of its own inside `harness.nodes.sandbox`: mounts end with it."""

from __future__ import annotations

import pytest

from harness.nodes.sandbox import inside_sandbox
from tests.integration.nodes.inner import run_pytest_in_sandbox
from tests.support import disks


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sandbox: runs inside the sandbox")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if pyfuncitem.get_closest_marker("sandbox") is None or inside_sandbox():
        return None
    lacking = disks.missing()
    if lacking is not None:
        pytest.skip(lacking)
    run_pytest_in_sandbox(pyfuncitem.nodeid)
    return True
