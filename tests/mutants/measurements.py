"""Measurements of many runs of the lab: kept line by line, so that one that was ended goes on where it was.

Decides how runs are made and judged one after the other; must not know what is measured of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from harness.commands.nightly import terminated_as_interrupted
from harness.nightly.judges import MANY
from harness.runs.checkers_process import AnalysisFailed
from tests.mutants.lab import Judged, Lab, LabRun
from tests.support.shared_session import shared_session

Key = TypeVar("Key")


def whole_lines(text: str) -> str:
    """The text up to its last line end: what new lines can be put behind."""
    return text[: text.rfind("\n") + 1]


def read_lines(file: Path) -> str:
    """What was measured before; a last line that a kill tore is cut off. Nothing where there is no file."""
    if not file.exists():
        return ""
    text = file.read_text(encoding="utf-8")
    if (whole := whole_lines(text)) != text:
        file.write_text(whole, encoding="utf-8")
    return whole


def append_line(file: Path, line: str) -> None:
    """It is on disk when this returns."""
    with file.open("a", encoding="utf-8") as out:
        out.write(line + "\n")
        out.flush()
        os.fsync(out.fileno())


def carry_out(
    due: Mapping[Key, LabRun], told: Callable[[Key, Judged | None], str], *, at_once: int = 1, minutes: float
) -> None:
    """Make these runs, in their order, and have each judged; what they leave behind is removed.

    told: called with each outcome, None where a run broke off; answers what is printed of it. at_once: runs that are
    recorded beside the judging. minutes: no run is begun after so long.
    """
    until = time.monotonic() + minutes * 60
    keys = list(due)
    if not keys:
        return
    folder = Path(tempfile.mkdtemp(prefix="highwater-measured-"))
    try:
        with terminated_as_interrupted(), shared_session(many=len(keys) >= MANY) as spark:
            lab = Lab(folder, spark, at_once)
            try:
                for number, key in enumerate(keys, 1):
                    if time.monotonic() >= until:
                        print(f"{len(keys) - number + 1} runs are left; the same command goes on with them")
                        return
                    # The next ones are recorded while this one is judged.
                    lab.expect(due[each] for each in keys[number - 1 : number + at_once])
                    print(f"{number}/{len(keys)} {told(key, _judged(lab, due[key]))}", flush=True)
                    shutil.rmtree(folder / due[key].name, ignore_errors=True)
            finally:
                lab.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _judged(lab: Lab, run: LabRun) -> Judged | None:
    try:
        return lab.result(run)
    except (AssertionError, AnalysisFailed, subprocess.TimeoutExpired) as broke_off:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # The bridge to Java makes an error of its own of an interrupt.
            raise KeyboardInterrupt from broke_off
        print(broke_off, file=sys.stderr)
        return None
