"""A cleaning in a process of its own: `python -m broker.log.cleaner.process`, the job on stdin, what it did on stdout.

A process, not a thread: taking batches apart keeps the interpreter busy, and a busy second thread lets the loop wait up
to 5 ms for the interpreter after each of its system calls. Memory for the map is given back when it ends, too.
It dies with its broker (parent-death signal), and stops when its stdin closes: no two may ever clean one log.
One JSON object per line each way; see `encode_job` and `_encode_event`.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from broker.log.cleaner.cleaner import (
    CleanedGroup,
    CleaningJob,
    CleaningStats,
    CleaningStopped,
    DamagedLog,
    LogCleaning,
    UncleanableLog,
)
from broker.log.cleaner.throttle import Throttle
from broker.log.indexes.aborted_txn import AbortedTxn
from broker.model.ids import Offset

_PR_SET_PDEATHSIG = 1
_PARENT = "HIGHWATER_CLEANER_PARENT"
_NICENESS = 10


class CleaningEnd(NamedTuple):
    """How a cleaning ended.

    outcome: done, stopped (also for want of a file), uncleanable, damaged, failed (an I/O error), died (it ended
    without a result). errno: of an I/O error, 0 otherwise. stats: when done. base, position: when damaged, as
    DamagedLog's.
    """

    outcome: str
    detail: str = ""
    errno: int = 0
    stats: CleaningStats | None = None
    base: Offset = -1
    position: int = -1


Event = CleanedGroup | CleaningEnd
OnEvent = Callable[[Event], None]
Stop = Callable[[], None]


class Runner(Protocol):
    """Carries a cleaning out, away from the loop."""

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        """on_event is called on the loop's thread, for each group in order, then once with the end.

        Returns a call that stops the cleaning early; on_event gets its end all the same.
        """
        ...


def perform(cleaning: LogCleaning, on_event: OnEvent) -> None:
    """Run it here; on_event as in `Runner`."""
    try:
        for group in cleaning.run():
            on_event(group)
    except CleaningStopped:
        end = CleaningEnd("stopped")
    except DamagedLog as error:
        end = CleaningEnd("damaged", str(error), base=error.base, position=error.position)
    except UncleanableLog as error:
        end = CleaningEnd("uncleanable", str(error))
    except FileNotFoundError as error:
        # Retention or a deletion was faster, or somebody else removed it.
        end = CleaningEnd("stopped", str(error))
    except OSError as error:
        end = CleaningEnd("failed", str(error), error.errno or 0)
    except MemoryError:
        end = CleaningEnd("died", "not enough memory")
    except Exception as error:
        # Another try would end in the same way: this log waits for its repair, the others are cleaned.
        traceback.print_exc()
        end = CleaningEnd("uncleanable", repr(error))
    else:
        end = CleaningEnd("done", stats=cleaning.stats)
    on_event(end)


class _Child:
    """A cleaner process that may still be starting."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def started(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self.process = process
            if self._stopped:
                process.kill()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self.process is not None:
                self.process.kill()


class ProcessRunner:
    """One process per cleaning, one thread that starts it and listens to it."""

    def __init__(self, call_soon_threadsafe: Callable[[Callable[[], None]], None]) -> None:
        self._call_soon = call_soon_threadsafe
        self._running: dict[_Child, threading.Thread] = {}

    def start(self, job: CleaningJob, on_event: OnEvent) -> Stop:
        """See `Runner`. Does not block. When no process or thread can be started, on_event gets an end that says so."""
        child = _Child()

        def follow() -> None:
            end = self._carry_out(child, job, on_event)

            def deliver() -> None:
                self._running.pop(child, None)
                on_event(end)

            self._call_soon(deliver)

        # The parent-death signal is sent when the *thread* that started the process ends.
        thread = threading.Thread(target=follow, name="log-cleaner", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            end = CleaningEnd("died", f"no thread can be started: {error}")
            self._call_soon(lambda: on_event(end))
        else:
            self._running[child] = thread
        return child.stop

    def _carry_out(self, child: _Child, job: CleaningJob, on_event: OnEvent) -> CleaningEnd:
        root = str(Path(__file__).resolve().parents[3])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "broker.log.cleaner.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), _PARENT: str(os.getpid())},
                cwd="/",
            )
        except OSError as error:
            return CleaningEnd("died", f"no process can be started: {error}")
        child.started(process)
        assert process.stdin is not None
        assert process.stdout is not None
        end: CleaningEnd | None = None
        try:
            process.stdin.write(encode_job(job) + b"\n")
            process.stdin.flush()
            for line in process.stdout:
                event = _decode_event(line)
                if isinstance(event, CleaningEnd):
                    end = event
                else:
                    self._call_soon(partial(on_event, event))
        except Exception as error:
            # Whatever it is, a line that is no event too: nobody else says that this cleaning is over, and its log
            # would wait for ever.
            process.kill()
            end = CleaningEnd("died", repr(error))
        process.stdout.close()
        code = process.wait()
        with contextlib.suppress(OSError):
            # Unsent bytes of the job, which nobody reads any more, make a close fail.
            process.stdin.close()
        if end is None:
            status = "SIGKILL" if code == -signal.SIGKILL else code
            end = CleaningEnd("died", f"the cleaner process ended with {status}")
        return end

    def close(self) -> None:
        """End what is under way and wait for it; its last events are not delivered by a loop that has stopped."""
        for child, thread in list(self._running.items()):
            child.stop()
            thread.join()


def encode_job(job: CleaningJob) -> bytes:
    """JSON for the cleaning process; an unlimited rate is null there, for JSON has no infinity."""
    fields = dataclasses.asdict(job)
    fields["bytes_per_second"] = None if job.bytes_per_second == float("inf") else job.bytes_per_second
    return json.dumps(fields).encode()


def decode_job(line: bytes) -> CleaningJob:
    """Raises ValueError, TypeError."""
    fields: dict[str, Any] = json.loads(line)
    if fields["bytes_per_second"] is None:
        fields["bytes_per_second"] = float("inf")
    for by_producer in ("producers", "epochs"):
        fields[by_producer] = {int(producer): number for producer, number in fields[by_producer].items()}
    fields["aborted"] = tuple(AbortedTxn(*entry) for entry in fields["aborted"])
    return CleaningJob(**fields)


def _encode_event(event: Event) -> bytes:
    if isinstance(event, CleanedGroup):
        row: dict[str, Any] = {"group": event._asdict()}
    else:
        row = {"end": event._asdict() | {"stats": dataclasses.asdict(event.stats) if event.stats else None}}
    return json.dumps(row).encode() + b"\n"


def _decode_event(line: bytes) -> Event:
    """Raises ValueError, or another error, for a line that is no event: an interpreter's start may print one."""
    row = json.loads(line)
    if "group" in row:
        return CleanedGroup(tuple(row["group"]["bases"]))
    end = row["end"]
    stats = CleaningStats(**end["stats"]) if end["stats"] is not None else None
    return CleaningEnd(end["outcome"], end["detail"], end["errno"], stats, end["base"], end["position"])


def _die_with_parent() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(os.environ[_PARENT]):
        sys.exit("the broker is gone")


def _check_parent() -> None:
    parent = select.poll()
    parent.register(sys.stdin, select.POLLIN)
    if parent.poll(0):
        raise CleaningStopped


def main() -> None:
    """The process."""
    _die_with_parent()
    os.nice(_NICENESS)
    job = decode_job(sys.stdin.buffer.readline())
    throttle = Throttle(job.bytes_per_second, time.monotonic, time.sleep)
    out = sys.stdout.buffer

    def send(event: Event) -> None:
        out.write(_encode_event(event))
        out.flush()

    perform(LogCleaning(job, throttle, _check_parent), send)


if __name__ == "__main__":
    main()
