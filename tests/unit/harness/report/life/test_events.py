"""What one broker's event log says of one record."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report.life.events import Replica

S = 1_000_000_000


def at(second: float, e: str, **fields: Any) -> dict[str, Any]:
    return {"e": e, "b": 1, "m": int((100 + second) * S), "p": "hw-0", "le": 2, **fields}


def told(*lines: dict[str, Any], offset: int = 5) -> list[tuple[float, str, str]]:
    """(second, kind, sentence) of each step about the offset."""
    replica = Replica("n1", "hw-0", offset, 100 * S, {1: "n1", 2: "n2"})
    replica.read(lines)
    return [(step.at_s, step.kind, step.text) for step in replica.steps]


APPEND = at(1, "append", role="leader", base=4, last=6)


def test_append_commit_acknowledgement_and_show_in_their_order() -> None:
    assert told(
        at(0.5, "hw", role="leader", hw=5, isr=[1, 2]),
        APPEND,
        at(1.5, "hw", role="leader", hw=5, isr=[1, 2]),
        at(2, "hw", role="leader", hw=7, isr=[1, 2]),
        at(2.5, "ack", base=4, last=6, acks=-1, hw=7, isr=[1, 2], min_isr=2),
        at(2.75, "visible", kind="fetch", upto=7, hw=7),
        at(3, "hw", role="leader", hw=9, isr=[1, 2]),
        at(3.5, "visible", kind="fetch", upto=9, hw=9),
        at(4, "flush", upto=9),
    ) == [
        (1.0, "append", "n1 appended offsets 4 to 6 as leader, in leader epoch 2."),
        (2.0, "commit", "n1's high watermark reached 7: the record is committed, ISR n1 and n2."),
        (2.5, "ack", "n1 acknowledged it, acks=all, high watermark 7, ISR n1 and n2."),
        (2.75, "read", "n1 showed consumers records up to 7, its high watermark 7."),
        (4.0, "call", "n1 had it on disk (fsync up to 9)."),
    ]


def test_follower_copies_learns_of_the_commit_and_is_cut() -> None:
    assert told(
        at(1, "append", role="follower", base=5, last=5),
        at(2, "hw", role="follower", hw=6, rid="x:1"),
        at(3, "truncate", from_leo=8, to=5, hw=6, in_isr=True, reason="diverging-epoch"),
        at(4, "truncate", from_leo=5, to=4, hw=6, in_isr=True, reason="diverging-epoch"),
        at(5, "append", role="follower", base=5, last=5, le=3),
    ) == [
        (1.0, "copy", "n1 appended offset 5 as follower, in leader epoch 2."),
        (2.0, "commit", "n1 learnt that it is committed (high watermark 6)."),
        (
            3.0,
            "cut",
            "n1 cut its log from 8 to 5 (diverging-epoch), and the record with it; its high watermark was 6.",
        ),
        (5.0, "copy", "n1 appended offset 5 as follower, in leader epoch 3."),
    ]


@pytest.mark.parametrize(
    ("end", "kind", "said"),
    [(6, "call", "offset is still in it."), (5, "cut", "offset is not in it."), (0, "cut", "offset is not in it.")],
)
def test_restart_says_whether_the_record_is_still_there(end: int, kind: str, said: str) -> None:
    steps = told(APPEND, at(2, "start"), at(3, "recovered", log_start=0, leo=end, hw=0, clean=False))
    assert [step[1] for step in steps] == ["append", "call", kind]
    assert steps[1][2] == "n1 started again."
    assert said in steps[2][2]


def test_what_is_of_other_records_partitions_and_lives_before_is_no_step() -> None:
    assert (
        told(
            at(0, "start"),
            at(0.5, "recovered", log_start=0, leo=3, hw=0, clean=True),
            at(1, "append", role="leader", base=4, last=4),
            at(2, "append", role="leader", base=6, last=9),
            at(3, "append", role="leader", base=5, last=5, p="hw-1"),
            at(4, "truncate", from_leo=10, to=6, hw=4, in_isr=True, reason="recovery"),
            at(5, "ack", base=6, last=9, acks=1, hw=4, isr=[1], min_isr=1),
            at(6, "stop"),
        )
        == []
    )


def test_version_of_the_znode_is_placed_by_the_first_line_that_speaks_of_it() -> None:
    replica = Replica("n1", "hw-0", 5, 100 * S, {1: "n1"})
    assert not replica.is_known
    replica.read(
        [
            at(1, "become_follower", pe=4),
            at(2, "isr_commit", isr=[1], pe=5),
            at(3, "become_leader", leo=6, pe=5),
            at(4, "hw", role="leader", hw=5),
            at(0.5, "become_leader", leo=6, pe=7, p="hw-1"),
        ]
    )
    assert replica.versions == {4: 1.0, 5: 2.0}
    assert replica.is_known


def test_leaderships_say_whether_the_log_reaches_beyond_the_offset() -> None:
    replica = Replica("n1", "hw-0", 5, 100 * S, {1: "n1", 2: "n2"})
    replica.read(
        [
            at(1, "become_leader", leo=6, isr=[1, 2], hw=3),
            at(2, "become_leader", leo=5, isr=[1, 2], hw=3, le=3),
            at(3, "election", leader=2, isr=[2], reason="suspected", le=4),
            at(4, "election", leader=-1, isr=[2], reason="offline", le=5),
            at(5, "isr_commit", isr=[2, 1], pe=3),
        ]
    )
    assert [(epoch, step.text) for epoch, step in replica.leaderships] == [
        (2, "n1 became leader in epoch 2, its log's end 6, beyond this offset."),
        (3, "n1 became leader in epoch 3, its log's end 5, not beyond this offset."),
    ]
    assert [(number, step.text) for number, step in replica.isrs] == [
        (3, "The committed ISR is n2 and n1 in epoch 2, says n1.")
    ]
    assert replica.elections == {
        4: "n1, the controller, chose n2 (suspected)",
        5: "n1, the controller, chose nobody (offline)",
    }


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"e": "append"},
        {"e": 7, "p": "hw-0"},
        at(1, "append", role="leader", base="4", last=6),
        at(1, "hw", role="leader", hw=None),
        at(1, "ack", base=4, last=6, acks=-1, hw=7, isr=None),
        at(1, "unheard_of"),
        at(1, "first", what=1),
        at(1, "step"),
    ],
)
def test_line_without_what_it_should_have_is_passed_over(broken: dict[str, Any]) -> None:
    assert [step[1] for step in told(broken, APPEND)] == ["append"]
