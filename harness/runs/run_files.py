"""Reads run files with all faults that are installed here: the one place where plans meet the nemesis' catalogue."""

from __future__ import annotations

from pathlib import Path

from harness.plan import run_file
from harness.plan.plan import Plan
from nemesis.catalogue import load_catalogue


def load(path: Path) -> Plan:
    """The plan of a run file.

    Raises PlanError with file, line, key, value found and what is allowed; or with what is wrong with an installed
    package that brings faults.
    """
    return run_file.load(path, load_catalogue().kinds)
