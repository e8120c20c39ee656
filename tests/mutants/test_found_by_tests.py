"""Planted bugs that take a fault which no run of the lab has: the test that makes that fault fails on each.

That it passes on the unmutated broker it shows itself, in its own place.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.nodes.sandbox import sandbox_command
from tests.mutants.patches import ROOT, FoundByTest, apply, found_by_tests
from tests.support import disks

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600), pytest.mark.guarantee("V2")]


@pytest.mark.parametrize("mutant", found_by_tests(), ids=lambda mutant: mutant.name)
def test_mutant_fails_the_test_that_should_see_it(mutant: FoundByTest, tmp_path: Path) -> None:
    lacking = disks.missing()
    if lacking is not None:
        pytest.skip(lacking)
    source = tmp_path / "source"
    apply(mutant, source)
    pytest_here = [sys.executable, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider"]
    configured = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}"]
    done = subprocess.run(
        sandbox_command([*pytest_here, *configured, str(ROOT / "tests" / mutant.test)]),
        # The current folder comes first on the path, of the brokers as well.
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HIGHWATER_TEST_SOURCE": str(source)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, f"{mutant.mistake} {mutant.test} did not see it:\n{done.stdout[-4000:]}{done.stderr}"
    assert "1 failed" in done.stdout, done.stdout[-4000:]
    assert re.search(r"^E +assert ", done.stdout, re.MULTILINE), (
        f"it failed before it came to what it asserts:\n{done.stdout[-4000:]}"
    )
