"""The history file: every operation, fault and phase of a run, one JSON line each (docs/history-format.md).

Decides when a line reaches the kernel. Must not know what operations mean. Invariants: an invocation is in the kernel
before `invoke` returns, so before its request is sent; a completion is at most `FLUSH_S` late; indexes are 0, 1, 2 …
in file order; nothing is ever rewritten. A kill -9 at any instant loses completions of the last second, never an
invocation.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from harness.operations.op import Completion, Invocation

FLUSH_S = 0.5

SETUP, MAIN, HEAL, FINAL = "setup", "main", "heal", "final"


def drain_phase(round_name: str) -> str:
    """Name of a drain round's phase; round_name is `current`, the node that leads, or `again`."""
    return f"drain-{round_name}"


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, check_circular=False).encode


class _LineLock:
    """A lock around a line, which knows when the main thread is inside, or is about to be.

    Python runs signal handlers in the main thread, between any two steps: one that raises there could leave half a
    line.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._main = threading.main_thread().ident
        self.main_inside = False

    def __enter__(self) -> None:
        if threading.get_ident() == self._main:
            self.main_inside = True
        self._lock.acquire()

    def __exit__(self, *_details: object) -> None:
        self._lock.release()
        if threading.get_ident() == self._main:
            self.main_inside = False


class History:
    """Appends to one history.jsonl; safe to use from many threads.

    origin_ns: CLOCK_MONOTONIC at the run's origin; `time_ns` of a line counts from it. A completion carries the time at
    which its response was seen, which may be before the time of the line above it.
    """

    def __init__(
        self,
        path: Path,
        origin_ns: int,
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        on_line: Callable[[Mapping[str, object]], None] | None = None,
    ) -> None:
        self.path = path
        self.origin_ns = origin_ns
        self._clock_ns = clock_ns
        self._on_line = on_line
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_EXCL, 0o644)
        self._lock = _LineLock()
        self._pending: list[str] = []
        self._next_index = 0
        self._phase = SETUP
        self._closing = threading.Event()
        self._failure: OSError | None = None
        self._flusher = threading.Thread(target=self._flush_now_and_then, name="history-flusher", daemon=True)
        self._flusher.start()

    @property
    def phase(self) -> str:
        """The phase that lines written now belong to."""
        return self._phase

    def main_thread_inside(self) -> bool:
        """Whether the main thread is writing a line: a signal handler must not raise then."""
        return self._lock.main_inside

    @property
    def lines(self) -> int:
        """How many lines there are so far, buffered ones included."""
        return self._next_index

    def begin_phase(self, phase: str) -> None:
        """Everything recorded from now on belongs to this phase, unless an invocation says another."""
        self._phase = phase
        self.harness("phase")

    def invoke(self, invocation: Invocation) -> int:
        """Write an invocation through to the kernel; returns its index."""
        tail = self._client_tail(invocation, None, invocation.fields)
        with self._lock:
            at_ns = self._clock_ns()
            index = self._stage("invoke", at_ns, tail)
            self._write()
        if self._on_line is not None:
            self._on_line(
                {
                    "type": "invoke",
                    "index": index,
                    "time_ns": at_ns - self.origin_ns,
                    "f": invocation.f,
                    "kind": "client",
                    **invocation.fields,
                }
            )
        return index

    def complete(self, index: int, invocation: Invocation, completion: Completion) -> None:
        """Record how invocation `index` came out. Buffered, but never beyond the next invocation."""
        tail = self._client_tail(invocation, completion.error, completion.fields)
        with self._lock:
            self._stage(completion.outcome, completion.at_ns, f'"invoke":{index},{tail}')
        if self._on_line is not None:
            self._on_line(
                {
                    "type": completion.outcome,
                    "invoke": index,
                    "time_ns": completion.at_ns - self.origin_ns,
                    "f": invocation.f,
                    "kind": "client",
                    "partition": invocation.partition,
                    "node": invocation.node,
                    "error": completion.error,
                    **completion.fields,
                }
            )

    def nemesis(
        self,
        f: str,
        *,
        fault: str,
        fault_id: int,
        targets: list[str],
        params: Mapping[str, object],
        observed: bool,
        observation: str,
        error: str | None = None,
        began_ns: int | None = None,
        file: str | None = None,
        family: str | None = None,
        effects: Sequence[str] = (),
    ) -> None:
        """A fault's `start` or `stop`, written through. began_ns: CLOCK_MONOTONIC when the change was begun.

        family, effects: of the fault's kind; lines without a family say neither.
        """
        fields: dict[str, object] = {
            "fault": fault,
            "fault_id": fault_id,
            "targets": targets,
            "params_json": json.dumps(dict(params), sort_keys=True, default=str),
            "observed": observed,
            "observation": observation,
        }
        if family is not None:
            fields["family"] = family
            fields["effects"] = list(effects)
        if began_ns is not None:
            fields["began_ns"] = began_ns - self.origin_ns
        if file is not None:
            fields["file"] = file
        self._own(-1, "nemesis", f, fields, error)

    def harness(self, f: str, *, error: str | None = None, **fields: object) -> None:
        """A line of the harness itself (`phase`, `drain-complete`, `evidence`, …), written through."""
        self._own(-2, "harness", f, fields, error)

    def _own(self, process: int, kind: str, f: str, fields: Mapping[str, object], error: str | None) -> None:
        body: dict[str, object] = {"process": process, "kind": kind, "f": f, "phase": self._phase, **fields}
        if error is not None:
            body["error"] = error
        tail = _encode(body)[1:]
        with self._lock:
            self._stage("info", self._clock_ns(), tail)
            self._write()
        if self._on_line is not None:
            self._on_line({"type": "info", **body})

    @staticmethod
    def _client_tail(invocation: Invocation, error: str | None, fields: Mapping[str, object]) -> str:
        body: dict[str, object] = {
            "process": invocation.process,
            "kind": "client",
            "f": invocation.f,
            "phase": invocation.phase,
            "topic": invocation.topic,
            "partition": invocation.partition,
            "node": invocation.node,
            **fields,
        }
        if error is not None:
            body["error"] = error
        return _encode(body)[1:]

    def _stage(self, type_: str, at_ns: int, tail: str) -> int:
        """Give a line its index and time. Caller holds the lock."""
        index = self._next_index
        self._next_index += 1
        self._pending.append(f'{{"type":"{type_}","index":{index},"time_ns":{at_ns - self.origin_ns},{tail}\n')
        return index

    def _write(self) -> None:
        """Hand everything staged to the kernel. Caller holds the lock. A failed write is final: it is raised for
        ever.
        """
        if self._failure is not None:
            raise self._failure
        data = "".join(self._pending).encode("ascii")
        self._pending.clear()
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            error.filename = str(self.path)
            self._failure = error
            raise

    def flush(self) -> None:
        """Hand every buffered line to the kernel. Raises OSError."""
        with self._lock:
            if self._pending:
                self._write()

    def _flush_now_and_then(self) -> None:
        while not self._closing.wait(FLUSH_S):
            try:
                self.flush()
            except OSError:
                # The next invocation raises it in a thread that can end the run.
                return

    def close(self) -> None:
        """Write what is left and close; idempotent."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._flusher.join()
        with self._lock:
            try:
                if self._failure is None:
                    self._write()
                    os.fsync(self._fd)
            finally:
                # A later write must not reach a descriptor that may belong to another file by then.
                self._failure = self._failure or OSError(errno.EBADF, f"{self.path} is closed")
                os.close(self._fd)

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a history file holds. open: invocations without a completion, which count as info; torn_bytes: of a last
    line cut off.
    """

    lines: int
    invocations: int
    open: int
    torn_bytes: int


class HistoryError(Exception):
    """A history that no run of this harness can have written; the text names file, line and what is wrong."""


def read_lines(path: Path) -> Iterator[dict[str, object]]:
    """The lines in file order, without a torn last one. Raises HistoryError for a line in the middle that is no
    object.
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                return
            try:
                line = json.loads(raw)
            except ValueError as error:
                raise HistoryError(f"{path}:{number}: not JSON: {error}") from None
            except RecursionError:
                raise HistoryError(f"{path}:{number}: brackets are nested too deeply") from None
            if not isinstance(line, dict):
                raise HistoryError(f"{path}:{number}: not a JSON object")
            yield line


def recover(path: Path) -> Recovered:
    """Look through a file that may have been left half-written. Changes nothing; raises HistoryError where indexes
    have a gap.
    """
    invocations: set[int] = set()
    completed = 0
    lines = 0
    for line in read_lines(path):
        index = line.get("index")
        if index != lines:
            raise HistoryError(f"{path}:{lines + 1}: index {index} where {lines} was due")
        lines += 1
        if line.get("type") == "invoke":
            invocations.add(lines - 1)
        elif "invoke" in line:
            completed += 1
    return Recovered(lines, len(invocations), len(invocations) - completed, _torn_bytes(path))


def _torn_bytes(path: Path) -> int:
    size = path.stat().st_size
    with path.open("rb") as file:
        step = 1 << 16
        end = size
        while end > 0:
            start = max(0, end - step)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return size - (start + at + 1)
            end = start
    return size
