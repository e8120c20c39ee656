"""What an administrator does with a topic that it makes anew, by what was answered."""

from __future__ import annotations

import pytest

from harness.operations.op import Outcome
from harness.workloads.recreate.lives import ASK, DELETE, MAKE, Life, Stage

pytestmark = [pytest.mark.guarantee("V2")]

LIVED = Life("B", ("A",), "there", since_ns=100, lives_ns=50)


def after(life: Life, f: str, outcome: Outcome, error: str | None = None, topic_id: str = "") -> Life:
    return life.begun(f).after(f, outcome, error, topic_id, 1000, 70)


def test_topic_is_made_used_for_its_time_and_deleted() -> None:
    life = Life()
    assert life.next(0) == MAKE
    life = after(life, MAKE, "ok", topic_id="A")
    assert life == Life("A", (), "there", 1000, 70)
    assert (life.next(1069), life.next(1070)) == (ASK, DELETE)
    life = after(life, DELETE, "ok")
    assert (life.stage, life.next(0)) == ("gone", MAKE)
    life = after(life, MAKE, "ok", topic_id="B")
    assert (life.topic_id, life.former, life.stage) == ("B", "A", "there")


@pytest.mark.parametrize(
    ("outcome", "error"), [("info", "timeout"), ("info", "REQUEST_TIMED_OUT"), ("fail", "NOT_CONTROLLER")]
)
def test_deletion_that_may_not_have_been_carried_out_is_asked_for_again(outcome: Outcome, error: str) -> None:
    life = after(LIVED, DELETE, outcome, error)
    assert (life.stage, life.next(0)) == ("ending", DELETE)
    # By its id: nobody there has it, so that it is gone.
    assert after(life, DELETE, "fail", "UNKNOWN_TOPIC_ID").stage == "gone"


def test_topic_whose_making_was_not_answered_is_asked_for() -> None:
    life = after(after(LIVED, DELETE, "ok"), MAKE, "info", "TOPIC_ALREADY_EXISTS")
    assert (life.stage, life.next(0)) == ("unsure", ASK)
    told = after(life, ASK, "ok", topic_id="C")
    assert (told.topic_id, told.earlier, told.stage) == ("C", ("A", "B"), "there")


@pytest.mark.parametrize(("told", "stage"), [("", "gone"), ("B", "ending"), ("A", "gone")])
def test_old_answer_leads_to_a_request_that_does_no_harm(told: str, stage: Stage) -> None:
    life = after(after(LIVED, DELETE, "ok"), MAKE, "info", "timeout")
    assert after(life, ASK, "ok", topic_id=told) == Life("B", ("A",), stage, 100, 50)


@pytest.mark.parametrize("told", ["", "A", "B"])
def test_old_answer_about_a_topic_that_is_there_changes_nothing(told: str) -> None:
    assert after(LIVED, ASK, "ok", topic_id=told) == LIVED


def test_making_that_certainly_did_nothing_is_tried_again() -> None:
    gone = after(LIVED, DELETE, "ok")
    assert after(gone, MAKE, "fail", "NOT_CONTROLLER") == gone


def test_deletion_may_have_begun_once_it_is_about_to_be_sent() -> None:
    assert LIVED.begun(DELETE).stage == "ending"
    assert LIVED.begun(ASK) == LIVED
