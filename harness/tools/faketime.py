"""Where the libfaketime is that skews a process's wall clock and leaves its monotonic clock alone.

Decides: the one inside the Python package libfaketime, for it does this right with FAKETIME_DONT_FAKE_MONOTONIC=1;
Debian's 0.9.10 then breaks Python's time.sleep. Must not know: what the clock is set to (the clock faults).
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_CHECK = """
import time
wall, mono = time.time(), time.monotonic()
time.sleep(0.05)
print(wall, mono, time.monotonic() - mono)
"""


def faketime_library() -> Path | None:
    """The shared library, or None when the package or the library for this platform is missing."""
    spec = importlib.util.find_spec("libfaketime")
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    return library if library.is_file() else None


def faketime_environment(library: str, control_file: str, cache_seconds: int = 1) -> dict[str, str]:
    """Variables that put a process's wall clock under a control file (`+3600s x2`), re-read every cache_seconds."""
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": control_file,
        "FAKETIME_CACHE_DURATION": str(cache_seconds),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def check_faketime(library: Path) -> str | None:
    """None when the library fakes the wall clock only and sleep works, else what is wrong."""
    import time

    with tempfile.TemporaryDirectory(prefix="highwater-faketime-") as folder:
        control = Path(folder) / "clock"
        control.write_text("+604800s\n")
        environment = {**os.environ, **faketime_environment(str(library), str(control))}
        wall, mono = time.time(), time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", _CHECK],
                env=environment,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "a process under libfaketime did not end in 30 s"
    if done.returncode != 0:
        return f"a process under libfaketime failed: {done.stderr.strip()[-300:]}"
    faked_wall, faked_mono, slept = map(float, done.stdout.split())
    if not 604_800 - 1 < faked_wall - wall < 604_800 + 60:
        return f"the wall clock moved by {faked_wall - wall:.0f} s instead of 604800 s"
    if not 0 <= faked_mono - mono < 60 or not 0.04 < slept < 30:
        return "the monotonic clock is faked too"
    return None
