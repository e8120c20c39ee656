"""One process of the Java client, and the calls that are made of it.

Decides when a process counts as dead: its output has ended, what it says is no line, or an answer takes too long, for
which it is killed. Must not know operations. Used by one thread; a second one reads what the process says, so that it
never waits for the lab.
"""

from __future__ import annotations

import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Any

from harness.clients.java.lines import Failure, NoLine, command_line, failure_of, parse_line
from harness.clients.java.program import Program

ANSWER_S = 30.0
"""How long a call may take beyond its own time-out before its process counts as hung: the machine may be slow."""
END_S = 5.0
_TOLD_CHARS = 300

Event = Mapping[str, Any]


class CallRefused(Exception):
    """The client's call threw."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.message}")
        self.failure = failure


class ClientDied(Exception):
    """The process is gone; the text says why. No later call is carried out."""


class ClientProcess:
    """One running process. on_event: is given each event, within `ask` and `serve`, in the order of its lines."""

    def __init__(self, program: Program, on_event: Callable[[Event], None]) -> None:
        self._on_event = on_event
        # A file, which nobody has to read while the process runs.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        # In a session of its own: Ctrl-C is for the lab, at whose end stdin ends, and with it the process.
        self._process = subprocess.Popen(
            list(program.argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._number = 0
        self._dead: str | None = None
        self._reader = threading.Thread(target=self._read, name="java-client", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def tell(self, do: str, **fields: object) -> int:
        """Hand a command over, whose answer nobody waits for; its number. Raises ClientDied."""
        self._alive()
        self._number += 1
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command_line(do, self._number, fields))
            self._process.stdin.flush()
        except OSError:
            raise self._gone("it takes no more commands") from None
        return self._number

    def ask(self, do: str, limit_s: float, **fields: object) -> Mapping[str, Any]:
        """The answer; limit_s: how long the call itself may take. Raises CallRefused, ClientDied."""
        number = self.tell(do, **fields)
        end_s = time.monotonic() + limit_s + ANSWER_S
        while True:
            line = self._next(end_s - time.monotonic())
            if line is None:
                raise self._gone(f"no answer to {do} within {limit_s + ANSWER_S:g} s")
            if line.get("answer") == number:
                if "failed" in line:
                    raise CallRefused(failure_of(line["failed"]))
                return line
            self._take(line)

    def serve(self, wait_s: float) -> None:
        """Take what has come; where nothing has, the first that comes within wait_s. Raises ClientDied."""
        line = self._next(wait_s)
        while line is not None:
            self._take(line)
            line = self._next(0)

    def _take(self, line: Mapping[str, Any]) -> None:
        # The answer to a command that was told has nothing to say: what became of it is an event.
        if "event" in line:
            self._on_event(line)

    def _next(self, wait_s: float) -> Mapping[str, Any] | None:
        self._alive()
        try:
            line = self._lines.get(timeout=wait_s) if wait_s > 0 else self._lines.get_nowait()
        except queue.Empty:
            return None
        if not line:
            raise self._gone("it ended")
        try:
            return parse_line(line)
        except NoLine as error:
            raise self._gone(f"it said {error}") from None

    def _alive(self) -> None:
        if self._dead is not None:
            raise ClientDied(self._dead)

    def _gone(self, reason: str) -> ClientDied:
        """What to raise from now on, once the process is gone for certain."""
        code = self._end(0)
        self._errors.seek(0)
        told = self._errors.read().decode(errors="replace").strip()[-_TOLD_CHARS:]
        self._errors.close()
        self._dead = f"{reason}; exit code {code}" + (f"; it told: {told}" if told else "")
        return ClientDied(self._dead)

    def _end(self, wait_s: float) -> int:
        """Its exit code, once it is gone: killed after wait_s."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(wait_s or END_S / 10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        code = self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        return code

    def close(self) -> None:
        """End the process, and wait for that."""
        if self._dead is None:
            self._dead = "it was closed"
            self._end(END_S)
            self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline()
            self._lines.put(line)
            if not line:
                return
