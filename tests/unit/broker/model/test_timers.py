from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.model.timers import TimerHeap
from tests.support.examples import examples


def drain(heap: TimerHeap, now_ms: float) -> None:
    while (due := heap.pop_due(now_ms)) is not None:
        due()


def test_timers_fire_by_time_then_in_the_order_set() -> None:
    heap, fired = TimerHeap(), list[str]()
    for when_ms, name in [(20, "c"), (10, "a"), (10, "b"), (30, "d")]:
        heap.add(when_ms, lambda name=name: fired.append(name))  # type: ignore[misc]
    assert heap.pop_due(9.9) is None
    drain(heap, 20)
    assert fired == ["a", "b", "c"]
    assert heap.next_ms() == 30


def test_timer_cancelled_does_not_fire_and_twice_does_no_harm() -> None:
    heap, fired = TimerHeap(), list[str]()
    first = heap.add(10, lambda: fired.append("first"))
    heap.add(11, lambda: fired.append("second"))
    first.cancel()
    first.cancel()
    assert (len(heap), heap.next_ms()) == (1, 11)
    drain(heap, 50)
    assert fired == ["second"]


def test_timer_cancelled_after_it_fired_leaves_the_count_right() -> None:
    heap = TimerHeap()
    handle = heap.add(1, lambda: None)
    drain(heap, 1)
    handle.cancel()
    heap.add(2, lambda: None)
    assert len(heap) == 1


def test_timers_always_cancelled_do_not_pile_up() -> None:
    heap = TimerHeap()
    heap.add(1_000_000, lambda: None)
    for when_ms in range(10_000):
        heap.add(when_ms, lambda: None).cancel()
    assert len(heap) == 1
    assert len(heap._heap) < 600


@examples()
@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=40), st.integers(0, 50))
def test_timers_any_mix_fires_exactly_what_is_due(timers: list[tuple[int, bool]], now_ms: int) -> None:
    heap, fired = TimerHeap(), list[int]()
    handles = [
        (heap.add(when_ms, lambda index=index: fired.append(index)), cancel)  # type: ignore[misc]
        for index, (when_ms, cancel) in enumerate(timers)
    ]
    for handle, cancel in handles:
        if cancel:
            handle.cancel()
    drain(heap, now_ms)
    due = [(when_ms, index) for index, (when_ms, cancel) in enumerate(timers) if when_ms <= now_ms and not cancel]
    assert fired == [index for _, index in sorted(due)]
    assert len(heap) == sum(not cancel for when_ms, cancel in timers if when_ms > now_ms)
