"""`python -m checkers --listen SOCKET`: one Spark session that judges one run's folder after the other.

Decides when it ends: with its standard input, or when whoever asked goes away before the answer, for what Spark has
begun cannot be called back. Must not know how a run is judged. Invariant: an end of either kind leaves no Java process,
no temporary file and no socket behind.

A request is one line of JSON, `{"run_dir": …, "log": …, "progress": …}`: log takes what the checkers print, progress is
of `checkers.progress`. The answer is one line: `{"code": n}`, the exit code of `python -m checkers` for that folder, or
`{"refused": why}` for one that needs a session of another size. One request a connection, one after the other.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NoReturn

from pyspark import SparkContext
from pyspark.sql import SparkSession

from checkers.spark.session import QUICK_BYTES, history_bytes, open_session

Judge = Callable[[Path, Path, SparkSession], int]
"""(run folder, progress file, session) → exit code; prints to stdout and stderr."""

_LONGEST_REQUEST = 65_536


def listen(path: Path, judge: Judge, many: bool) -> NoReturn:
    """Judge what is asked for at the socket until the standard input ends. many: see `open_session`.

    Raises OSError where there can be no such socket.
    """
    server = _bound(path)
    # All that Spark and Python make goes below it, and with it.
    scratch = path.with_name(f"{path.name}.files").absolute()
    shutil.rmtree(scratch, ignore_errors=True)

    def end() -> NoReturn:
        _end(path, scratch)

    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        scratch.mkdir()
        os.environ["TMPDIR"] = str(scratch)
        session = open_session(many=many)
    except BaseException:
        _remove(path, scratch)
        raise
    # Spark takes Ctrl-C for itself.
    signal.signal(signal.SIGINT, on_interrupt)
    threading.Thread(target=_at_end_of_input, args=(end,), daemon=True).start()
    try:
        while True:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                answer = _answer(connection, session, judge, end)
                connection.sendall(json.dumps(answer).encode() + b"\n")
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            print(f"checkers: the judge ended: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        end()


def _bound(path: Path) -> socket.socket:
    """The address has room for a hundred letters; by its folder's descriptor a path may be longer."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"/proc/self/fd/{folder}/{path.name}")
        server.listen()
        return server
    finally:
        os.close(folder)


def _answer(connection: socket.socket, session: SparkSession, judge: Judge, end: Callable[[], NoReturn]) -> object:
    with connection.makefile("rb") as lines:
        try:
            request = json.loads(lines.readline(_LONGEST_REQUEST))
            run_dir, log, progress = (Path(request[name]) for name in ("run_dir", "log", "progress"))
        except (ValueError, KeyError, TypeError) as error:
            return {"refused": f"not a request: {type(error).__name__}: {error}"}
    if (size := history_bytes(run_dir)) >= QUICK_BYTES:
        return {"refused": f"{size} bytes of history; this session is for less than {QUICK_BYTES}"}
    answered = threading.Event()
    threading.Thread(target=_while_asked, args=(connection, answered, end), daemon=True).start()
    try:
        # Java, which was started before, may write there too.
        with log.open("a", encoding="utf-8") as output, redirect_stdout(output), redirect_stderr(output):
            return {"code": judge(run_dir, progress, session)}
    finally:
        answered.set()


def _while_asked(connection: socket.socket, answered: threading.Event, end: Callable[[], NoReturn]) -> None:
    with suppress(OSError):
        while connection.recv(1):
            pass
    if not answered.is_set():
        end()


def _at_end_of_input(end: Callable[[], NoReturn]) -> None:
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    end()


def _end(path: Path, scratch: Path) -> NoReturn:
    # What was under way complains of a Java that is gone.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    gateway = SparkContext._gateway
    java = getattr(gateway, "proc", None)
    if java is not None:
        java.kill()
        java.wait()
    _remove(path, scratch)
    os._exit(0)


def _remove(path: Path, scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    path.unlink(missing_ok=True)
