from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from harness.runs.run_control import Abort, Aborted, Background, RunFailed


def strike(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)
    # Python runs the handler between two steps; give it some.
    for _ in range(100):
        time.sleep(0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_first_signal_raises_and_names_itself(number: signal.Signals) -> None:
    abort = Abort()
    with abort.on_signals(lambda: False), pytest.raises(Aborted):
        strike(number)
    assert abort.reason == number.name


def test_second_signal_is_ignored_while_the_run_ends(capfd: pytest.CaptureFixture[str]) -> None:
    abort = Abort()
    with abort.on_signals(lambda: False):
        with pytest.raises(Aborted):
            strike()
        strike()
    assert "already ending" in capfd.readouterr().err


def test_signal_in_the_middle_of_a_line_is_seen_at_the_next_wait() -> None:
    abort = Abort()
    with abort.on_signals(lambda: True):
        strike()
        assert abort.is_set()
        with pytest.raises(Aborted):
            abort.sleep(60)
        with pytest.raises(Aborted):
            abort.check()


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Abort().on_signals(lambda: False):
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_background_error_is_kept_and_raised() -> None:
    def work(_stop: threading.Event) -> None:
        raise ValueError("broken")

    worker = Background("nemesis", work)
    worker.start()
    worker.end()
    with pytest.raises(RunFailed, match="nemesis: ValueError: broken"):
        worker.raise_error()


def test_background_ends_when_it_is_stopped() -> None:
    def until_told(stop: threading.Event) -> None:
        stop.wait()

    worker = Background("sampler", until_told)
    worker.start()
    worker.end()
    worker.end()
    worker.raise_error()


def test_background_never_started_ends_quietly() -> None:
    worker = Background("nemesis", lambda _stop: None)
    worker.end()
    worker.raise_error()
