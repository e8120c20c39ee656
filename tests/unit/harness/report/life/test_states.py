"""Which versions of a partition's state belong to a record's life, and when each was."""

from __future__ import annotations

import pytest

from harness.report.life.states import State, in_force, led_by, of_life, placed, step
from harness.report.life.zookeeper import Version

pytestmark = pytest.mark.guarantee("V6")

NAMES = {1: "n1", 2: "n2", 3: "n3"}


def version(
    number: int,
    leader: int,
    epoch: int,
    isr: tuple[int, ...] = (1, 2, 3),
    ms: int = 0,
    life: int = 1,
    *,
    deleted: bool = False,
) -> Version:
    return Version(16 + number, 0, life, number, ms, leader, epoch, isr, deleted)


LINE = [
    version(0, 1, 0, ms=1000),
    version(1, 1, 0, (1, 2), ms=2000),
    version(2, 2, 1, (2,), ms=3000),
    version(3, 2, 1, (2, 3), ms=4000),
    version(4, 2, 1, (1, 2, 3), ms=5000),
    version(5, 3, 2, (3,), ms=6000),
]
STATES = placed(LINE, 0, {})


def told(open_s: list[tuple[float, float]], cuts_s: list[float]) -> list[int]:
    return [state.version.number for state, _ in of_life(STATES, open_s, cuts_s)]


def test_version_is_where_zookeeper_has_it_and_not_later_than_a_broker_spoke_of_it() -> None:
    assert [state.at_s for state in STATES] == [1, 2, 3, 4, 5, 6]
    assert [state.at_s for state in placed(LINE, 500_000_000, {})] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5]
    # A broker logged version 3 before ZooKeeper's clock says that it came: then those before it were there as well.
    assert [state.at_s for state in placed(LINE, 0, {3: 2.5, 5: 7.0})] == [1, 2, 2.5, 2.5, 5, 6]


def test_number_that_two_lives_of_a_topic_have_places_none() -> None:
    both = [version(0, 1, 0, ms=1000), version(0, 2, 0, ms=9000, life=2)]
    assert [state.at_s for state in placed(both, 0, {0: 1.0})] == [1, 9]


@pytest.mark.parametrize(
    ("open_s", "cuts_s", "numbers"),
    [
        ([], [], []),
        # What was in force at the append; later leaders.
        ([(1.5, 1.6)], [], [0, 2, 5]),
        # An ISR that changed before the commit.
        ([(1.5, 2.5)], [], [0, 1, 2, 5]),
        # What was in force at a cut.
        ([(1.5, 1.6)], [4.5], [0, 2, 3, 5]),
        # Another record at the same offset.
        ([(1.5, 1.6), (4.2, 5.1)], [], [0, 2, 3, 4, 5]),
        ([(0.5, 0.6)], [], [0, 2, 5]),
        ([(8.0, 8.0)], [], [5]),
        # Of an append in the middle of a leader epoch also what had begun that.
        ([(4.5, 4.6)], [], [2, 3, 5]),
        ([(2.5, 2.6)], [], [0, 1, 2, 5]),
    ],
)
def test_what_belongs_to_a_life(open_s: list[tuple[float, float]], cuts_s: list[float], numbers: list[int]) -> None:
    assert told(open_s, cuts_s) == numbers


def test_words_of_a_version_say_who_left_and_who_came() -> None:
    first = step(STATES[0], None, "hw-0", NAMES, None)
    assert first.text == ("Version 0 of the state of hw-0 (zxid 0x10): leader n1, leader epoch 0, ISR n1, n2 and n3.")
    changed = State(version(1, -1, 1, (3, 7)), 2.0)
    words = step(changed, version(0, 1, 0, (1, 3)), "hw-0", NAMES, "n2, the controller, chose nobody (offline)")
    assert words.kind == "election"
    assert words.text == (
        "Version 1 of the state of hw-0 (zxid 0x11): no leader, leader epoch 1, ISR n3 and broker 7 "
        "(n1 left, broker 7 came). n2, the controller, chose nobody (offline)."
    )
    assert step(STATES[1], LINE[0], "hw-0", NAMES, None).kind == "isr"
    gone = step(State(version(1, 1, 0, deleted=True), 2.0), LINE[0], "hw-0", NAMES, None)
    assert (gone.kind, gone.text) == ("cut", "The state of hw-0 was deleted (zxid 0x11): so was the topic.")


def test_leader_of_an_epoch_where_zookeeper_names_one() -> None:
    assert [led_by(LINE, epoch, NAMES) for epoch in range(4)] == ["n1", "n2", "n3", None]
    assert led_by([version(0, -1, 4)], 4, NAMES) is None
    assert led_by([version(0, 1, 0), version(0, 2, 0, life=2)], 0, NAMES) is None


def test_what_is_in_force_before_the_first_version_is_nothing() -> None:
    assert in_force(STATES, 0.9) is None
    found = in_force(STATES, 2.0)
    assert found is not None
    assert found.version.number == 1
