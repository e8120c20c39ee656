"""What the console is told of a verdict so far, and what stands of the one before."""

from __future__ import annotations

import pytest

from harness.runs.online import Found, JudgeEnded, SoFar, so_far_of

HOLE = Found("hole", 2, "nothing at 7", (3, 9), 4.5, "hw-0")
LOST = Found("lost-write", 1, "value 3 is gone", (5,), 6.0)


def test_text_says_what_was_found_and_how_far_it_was_judged() -> None:
    assert SoFar(9000, 31.2, 8120).text() == "so far: 8,120 acknowledged, nothing found, judged to 31 s"
    assert SoFar(90, 31.2, 81, (LOST,)).text() == "INVALID so far: lost-write (1), judged to 31 s"
    assert SoFar(90, 31.2, 81, (HOLE, LOST)).text() == "INVALID so far: hole (2), lost-write (1), judged to 31 s"


def test_what_was_found_once_stands() -> None:
    first, second = SoFar(10, 1.0, 5, (HOLE,)), SoFar(20, 2.0, 9, (LOST,))
    assert second.after(first) == SoFar(20, 2.0, 9, (HOLE, LOST))
    more = SoFar(20, 2.0, 9, (Found("hole", 5, "more", (3, 9), 4.5),))
    assert more.after(first) == more


def test_so_far_of_reads_an_answer_of_the_judge() -> None:
    found = {"checker": "hole", "count": 2, "detail": "nothing at 7", "operations": [3, 9], "at_ns": 4_500_000_000}
    answer = {"lines": 40, "to_ns": 5_000_000_000, "acknowledged": 12, "found": [{**found, "partition": "hw-0"}]}
    assert so_far_of(answer) == SoFar(40, 5.0, 12, (HOLE,))


def test_so_far_of_the_last_answer_says_why_there_is_none_any_more() -> None:
    with pytest.raises(JudgeEnded, match="too large"):
        so_far_of({"ended": "the history is too large"})
