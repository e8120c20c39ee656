"""`highwater serve` as a process of its own, and stores for it to show."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from tests.support.sample_run import RESULTS, RUN, write_sample_run

STAMP = "20260101T000000.000Z"


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs. port: on 127.0.0.1."""

    port: int
    process: subprocess.Popen[str]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Ask for a path, exactly as written."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()


@contextmanager
def served(store: Path, *options: str) -> Iterator[Served]:
    """Serve a store until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.commands", "serve", str(store), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r":(\d+)/", line)
        assert found, (line, process.stderr.read() if process.stderr and process.wait(10) else "")
        yield Served(int(found[1]), process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def write_run(store: Path, name: str, stamp: str = STAMP, judged: bool = True, **changes: object) -> Path:
    """One run's folder; changes: keys of run.json."""
    folder = store / name / stamp
    folder.mkdir(parents=True)
    write_sample_run(folder)
    run = {**RUN, "name": name, "started_wall_ns": 1_700_000_000_000_000_000, **changes}
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    (folder / "history.jsonl").write_text('{"index":0,"f":"send"}\n' * 3, encoding="utf-8")
    os.utime(folder / "history.jsonl", (1_700_000_065, 1_700_000_065))
    if not judged:
        (folder / "results.json").unlink()
    return folder


def write_results(folder: Path, **changes: object) -> None:
    """results.json with some keys changed."""
    (folder / "results.json").write_text(json.dumps({**RESULTS, **changes}), encoding="utf-8")
