from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable

import pytest

from broker.net.loop import READABLE, EpollLoop
from tests.integration.net.until import Until


def test_loop_turn_runs_its_phases_in_order(loop: EpollLoop) -> None:
    seen: list[str] = []

    class Out:
        def flush_output(self) -> None:
            seen.append("send")

    reader, writer = os.pipe()
    loop.add_before_send(lambda: seen.append("hook 1"))
    loop.add_before_send(lambda: seen.append("hook 2"))
    loop.register(reader, READABLE, lambda _: (os.read(reader, 9), seen.append("read")))  # type: ignore[arg-type, func-returns-value]
    loop.want_send(Out())
    loop.call_soon(lambda: seen.append("soon"))
    loop.call_later(0, lambda: seen.append("timer"))
    os.write(writer, b"x")
    loop.run_once(timeout_ms_max=1000)
    assert seen == ["read", "timer", "soon", "hook 1", "hook 2", "send"]
    loop.unregister(reader)
    os.close(reader)
    os.close(writer)


def test_loop_timers_fire_in_order_and_not_before_their_time(loop: EpollLoop, until: Until) -> None:
    fired: list[tuple[str, float]] = []
    start_ms = loop.now_ms()
    for delay_ms, name in [(30.0, "late"), (10.0, "early"), (20.0, "middle")]:
        loop.call_later(delay_ms, lambda name=name: fired.append((name, loop.now_ms() - start_ms)))  # type: ignore[misc]
    gone = loop.call_later(15, lambda: fired.append(("cancelled", 0)))
    gone.cancel()
    until(lambda: len(fired) == 3)
    assert [name for name, _ in fired] == ["early", "middle", "late"]
    assert all(at_ms >= delay_ms for (_, at_ms), delay_ms in zip(fired, [10, 20, 30], strict=True))


def test_loop_timer_that_a_handler_arms_is_for_a_later_turn_also_where_another_is_due(loop: EpollLoop) -> None:
    # What is sent at a turn's end refers to files that such a timer may close.
    seen: list[str] = []
    reader, writer = os.pipe()

    def handle(_: int) -> None:
        os.read(reader, 9)
        loop.call_later(0, lambda: seen.append("armed"))

    loop.register(reader, READABLE, handle)
    loop.add_before_send(lambda: seen.append("hook"))
    loop.call_later(0, lambda: seen.append("due"))
    os.write(writer, b"x")
    loop.run_once(timeout_ms_max=1000)
    assert seen == ["due", "hook"]
    loop.run_once(timeout_ms_max=1000)
    assert seen == ["due", "hook", "armed", "hook"]
    loop.unregister(reader)
    os.close(reader)
    os.close(writer)


def test_loop_call_soon_from_a_callback_runs_in_the_next_turn(loop: EpollLoop) -> None:
    seen: list[int] = []
    loop.call_soon(lambda: (seen.append(1), loop.call_soon(lambda: seen.append(2))))  # type: ignore[arg-type, func-returns-value]
    loop.run_once()
    assert seen == [1]
    loop.run_once()
    assert seen == [1, 2]


def test_loop_threads_wake_it_and_no_call_is_lost(loop: EpollLoop) -> None:
    seen: list[tuple[int, int]] = []
    threads, calls = 4, 2000

    def work(thread: int) -> None:
        for call in range(calls):
            loop.call_soon_threadsafe(lambda call=call: seen.append((thread, call)))  # type: ignore[misc]

    workers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]

    def stop_when_joined() -> None:
        for worker in workers:
            worker.join()
        loop.call_soon_threadsafe(loop.stop)

    for worker in workers:
        worker.start()
    waiter = threading.Thread(target=stop_when_joined)
    waiter.start()
    loop.run()  # without a timer: only a wake-up can end each poll
    waiter.join()
    assert len(seen) == threads * calls
    for thread in range(threads):
        assert [call for worker, call in seen if worker == thread] == list(range(calls))


def test_loop_waits_without_spinning(loop: EpollLoop) -> None:
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1

    loop.add_before_send(count)
    loop.call_later(50, loop.stop)
    loop.run()
    assert turns <= 4


def test_loop_callback_that_raises_is_logged_by_name_and_survived(
    loop: EpollLoop, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks_in_callback() -> None:
        raise RuntimeError("oops")

    def breaks_in_handler(_: int) -> None:
        raise RuntimeError("oops")

    one, two = socket.socketpair()
    loop.register(one.fileno(), select.EPOLLOUT, breaks_in_handler)
    seen: list[int] = []
    loop.call_soon(breaks_in_callback)
    loop.call_later(0, breaks_in_callback)
    loop.call_soon(lambda: seen.append(1))
    with caplog.at_level(logging.ERROR):
        loop.run_once()
    assert seen == [1]
    assert caplog.text.count("breaks_in_callback failed") == 2
    assert "breaks_in_handler failed" in caplog.text
    loop.unregister(one.fileno())
    one.close()
    two.close()


def test_loop_before_send_hook_that_raises_stops_it_before_any_send(loop: EpollLoop) -> None:
    sent: list[int] = []

    class Out:
        def flush_output(self) -> None:
            sent.append(1)

    def disk_is_gone() -> None:
        raise OSError("disk is gone")

    loop.add_before_send(disk_is_gone)
    loop.want_send(Out())
    with pytest.raises(OSError, match="disk is gone"):
        loop.run()
    assert sent == []


def test_loop_stop_from_a_signal_like_thread_ends_run_promptly(loop: EpollLoop) -> None:
    threading.Timer(0.02, lambda: loop.call_soon_threadsafe(loop.stop)).start()
    start = time.monotonic()
    loop.run()
    assert time.monotonic() - start < 5


def test_loop_handler_of_a_descriptor_closed_in_this_turn_is_not_called(loop: EpollLoop) -> None:
    pairs = [socket.socketpair(), socket.socketpair()]
    called: list[int] = []

    def handler(index: int) -> Callable[[int], None]:
        def ready(_: int) -> None:
            called.append(index)
            for one, _other in pairs:
                if one.fileno() >= 0:
                    loop.unregister(one.fileno())

        return ready

    for index, (one, other) in enumerate(pairs):
        loop.register(one.fileno(), READABLE, handler(index))
        other.send(b"x")
    loop.run_once(timeout_ms_max=1000)
    assert len(called) == 1
    for one, other in pairs:
        one.close()
        other.close()
