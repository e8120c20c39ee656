"""Deadlines against a plain dict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.group.deadlines import Deadlines
from tests.support.examples import examples

pytestmark = pytest.mark.guarantee("group-rules")

names = st.sampled_from("abcd")
steps = st.one_of(
    st.tuples(st.just("set"), names, st.integers(0, 50)),
    st.tuples(st.just("remove"), names, st.just(0)),
    st.tuples(st.just("pop"), st.just(""), st.integers(0, 50)),
)


@examples(300)
@given(st.lists(steps, max_size=80))
def test_deadlines_agree_with_a_plain_dict(tries: list[tuple[str, str, int]]) -> None:
    deadlines, plain = Deadlines(), dict[str, float]()
    for what, name, at in tries:
        if what == "set":
            deadlines.set(name, at)
            plain[name] = at
        elif what == "remove":
            deadlines.remove(name)
            plain.pop(name, None)
        else:
            due = deadlines.pop_due(at)
            first = min(plain.values(), default=None)
            if first is None or first > at:
                assert due is None
            else:
                assert due is not None
                assert plain.pop(due) == first
        next_ms = deadlines.next_ms()
        assert (next_ms is None) == (not plain)
        assert next_ms is None or next_ms <= min(plain.values())
        assert all(name in deadlines for name in plain)
    deadlines.clear()
    assert deadlines.next_ms() is None


def test_moving_deadlines_and_passing_members_take_no_room() -> None:
    deadlines = Deadlines()
    for n in range(10_000):
        deadlines.set("stays", float(n))
        deadlines.set(str(n), 1_000_000.0)
        deadlines.remove(str(n))
    assert len(deadlines._heap) <= 130
