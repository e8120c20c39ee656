"""A judge as a process of this one: `python -m checkers --listen SOCKET`, which ends with its standard input.

Decides how it is started and ended. Must not know how it judges. Invariant: it ends with this process, however that
ends, and leaves nothing behind.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from harness.runs.process_group import end_group

SOCKET = "judge"
"""Name of its socket in the folder of a run that has a judge of its own."""
PROGRAM = ("-m", "checkers")
_END_S = 5.0


class JudgeProcess:
    """One judge. Raises OSError where it cannot be started."""

    def __init__(self, socket: Path, log: Path, *, many: bool = False) -> None:
        """socket: where it will listen, in a moment. log: for what it says apart from any run; appended to. many: it is
        for ten runs or more.
        """
        self.socket = socket
        with log.open("ab") as output:
            # A session of its own: Ctrl-C is for this process, which ends its judges.
            self.process = subprocess.Popen(
                [sys.executable, *PROGRAM, "--listen", str(socket), *(["--many"] if many else [])],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def waits(self) -> bool:
        """Whether it can be asked: one that ends takes its socket away first, and is there for a moment more."""
        return self.socket.exists() and self.process.poll() is None

    def end(self) -> None:
        """End it, also while it judges, or still starts."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(_END_S)
        except subprocess.TimeoutExpired:
            # Until Java has started nobody looks at the standard input.
            end_group(self.process)
        forget(self.socket)


def forget(socket: Path) -> None:
    """Remove what a judge that is dead may have left."""
    socket.unlink(missing_ok=True)
    shutil.rmtree(socket.with_name(f"{socket.name}.files"), ignore_errors=True)
