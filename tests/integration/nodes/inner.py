"""Tests that make nodes run in a pytest of their own inside the sandbox.

What that pytest says it did counts, not its exit code alone: a test that was skipped, or none that ran, is no success.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.nodes.sandbox import sandbox_command

ROOT = Path(__file__).resolve().parents[3]


_COUNT = re.compile(r"(\d+) ([a-z]+)")
_NO_OUTCOME = {"warning", "warnings", "deselected"}


def run_pytest_in_sandbox(target: str, **environment: str) -> None:
    """Run a test file or a test id inside the sandbox; fails, with what it printed, unless all of it passed."""
    command = sandbox_command(
        [sys.executable, "-m", "pytest", "-q", "-rs", "--color=no", "-p", "no:cacheprovider", target]
    )
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
    wrong = what_is_wrong(target, done.returncode, done.stdout)
    if wrong is not None:
        said = f"{_without_clients(done.stdout)[-8000:]}\n{done.stderr[-2000:]}"
        pytest.fail(f"inside the sandbox, {wrong} (exit code {done.returncode}):\n{said}", pytrace=False)


def what_is_wrong(target: str, exit_code: int, output: str) -> str | None:
    """None where every test of the target was run and passed; a test id names one."""
    lines = output.splitlines()
    summary = next((line for line in reversed(lines) if re.search(r" in \d+\.\d+s", line)), "")
    found = {name: int(count) for count, name in _COUNT.findall(summary.rpartition(" in ")[0])}
    outcomes = {name: count for name, count in found.items() if name not in _NO_OUTCOME}
    if exit_code != 0:
        return "it failed"
    if set(outcomes) != {"passed"}:
        return f"not all of it passed: {summary or 'there is no summary'}"
    if "::" in target and outcomes["passed"] != 1:
        return f"one test was to be run: {summary}"
    return None


def _without_clients(output: str) -> str:
    """librdkafka's complaints about brokers that are gone would push out what failed."""
    return "\n".join(line for line in output.splitlines() if "|rdkafka#" not in line)
