"""Tests that make nodes run in a pytest of their own inside the sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.sandbox import sandbox_command

ROOT = Path(__file__).resolve().parents[3]


def run_pytest_in_sandbox(target: str, **environment: str) -> None:
    """Run a test file or a test id inside the sandbox; fails with what it printed."""
    command = sandbox_command([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", target])
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        said = f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
        pytest.fail(f"inside the sandbox (exit code {done.returncode}):\n{said}", pytrace=False)
