from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from benchmarks.process import BenchmarkFailed, Client, Daemon, run_program
from tests.support.wait import eventually

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"


def test_daemon_says_whether_it_stopped_by_itself(tmp_path: Path) -> None:
    obedient = Daemon("obedient", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path, {})
    obedient.start()
    assert obedient.stop() is True
    deaf = Daemon("deaf", [sys.executable, "-c", DEAF], tmp_path, {})
    deaf.start()
    eventually(lambda: "deaf" in deaf.tail(), "its first word")
    deaf.signal(signal.SIGTERM)
    assert deaf.wait(0.05) is False
    assert not deaf.alive


def test_program_gives_both_of_what_it_printed() -> None:
    said = run_program([sys.executable, "-c", "import sys; print('a'); print('b', file=sys.stderr)"], 30)
    assert (said.output, said.errors) == ("a\n", "b\n")


def test_client_in_the_background_fails_with_what_it_complained_of() -> None:
    client = Client([sys.executable, "-c", "import sys; sys.exit('no such topic')"])
    with pytest.raises(BenchmarkFailed, match="exit code 1: no such topic"):
        client.finish(30)
    client.kill()


def test_client_that_does_not_end_is_killed() -> None:
    client = Client([sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(BenchmarkFailed, match=r"did not end within 0\.05 s"):
        client.finish(0.05)
    client.kill()
