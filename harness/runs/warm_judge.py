"""Asks a judge that was started before, `python -m checkers --listen SOCKET`, for one run.

Decides when it is done without: no judge is there, it refuses, or it ends before it answers. Must not know what judging
is. Going away before the answer ends the judge, and all that it does for this run.
"""

from __future__ import annotations

import json
import os
import select
import socket
from pathlib import Path
from types import TracebackType


class WithoutJudge(Exception):
    """The judge takes this run not; somebody else must judge it."""


class WarmJudge:
    """One connection, for one run. Raises WithoutJudge, also in the middle."""

    def __init__(self, path: Path) -> None:
        """path: of its socket, which may be longer than an address of a socket."""
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._answer = b""

    def __enter__(self) -> WarmJudge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, run_dir: Path, log: Path, progress: Path) -> None:
        """Have a run's folder judged. log: for what the checkers print; progress: for how far they are."""
        request = {
            name: os.path.abspath(path) for name, path in (("run_dir", run_dir), ("log", log), ("progress", progress))
        }
        try:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self._socket.connect(f"/proc/self/fd/{folder}/{self._path.name}")
            finally:
                os.close(folder)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise WithoutJudge(f"{self._path}: {error}") from error

    def wait(self, seconds: float) -> int | None:
        """The checkers' exit code; None when they have not ended within so many seconds."""
        while self._readable.poll(seconds * 1000):
            try:
                piece = self._socket.recv(4096)
            except OSError as error:
                raise WithoutJudge(f"{self._path}: {error}") from error
            if not piece:
                raise WithoutJudge(f"{self._path}: it ended without an answer")
            self._answer += piece
            if self._answer.endswith(b"\n"):
                return self._code()
        return None

    def _code(self) -> int:
        answer = json.loads(self._answer)
        if "refused" in answer:
            raise WithoutJudge(answer["refused"])
        return int(answer["code"])
