from __future__ import annotations

import pytest

from checkers.history.remade import Life, Making, _next_ns

pytestmark = pytest.mark.guarantee("V2")


@pytest.mark.parametrize(
    ("makings", "since"),
    [
        ([], None),
        # It made this very topic, and was over.
        ([Making("t", 10, 20)], None),
        ([Making("t", 10, 20), Making("t", 130, 140)], 130),
        # Nobody knows when it is carried out.
        ([Making("t", 90, None)], 100),
        # It was under way when the deletion was asked for: whose administrator the other one is plays no part.
        ([Making("t", 90, 110), Making("t", 130, 140)], 100),
    ],
)
def test_next_topic_may_have_the_name_once_something_that_makes_one_can_come_behind_the_deletion(
    makings: list[Making], since: int | None
) -> None:
    assert _next_ns(Life("t", "a", 20, 100), makings) == since
    assert _next_ns(Life("t", "a", 20, None), makings) is None
