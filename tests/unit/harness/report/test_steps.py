"""The words for one operation of the history."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report.steps import Step, Subject, of_operation
from tests.support.sample_run import OPERATIONS

pytestmark = pytest.mark.guarantee("V6")

SEND, SENT, POLL, POLLED = OPERATIONS
SUBJECT = Subject("hw-0", 2, 17, {"17": "m2"}, lambda _p, _s: 4)


def steps(*lines: dict[str, Any], subject: Subject = SUBJECT) -> list[Step]:
    return of_operation(lines, subject)


def test_acknowledged_send_is_an_arrow_there_and_one_back() -> None:
    there, back = steps(SEND, SENT)
    assert there.text == "Client 3 sent m2 (value 17) to n1 for hw-0, acks=all."
    assert (there.at_s, there.lanes, there.to, there.label) == (1.0, ("clients",), "n1", "send m2")
    assert back.text == "n1 acknowledged m2 (value 17) at offset 2 of hw-0 (leader epoch 4), after 12 ms."
    assert (back.at_s, back.lanes, back.to, back.label) == (1.012, ("n1",), "clients", "ack @2")


def test_batch_names_the_offset_of_the_record_that_the_story_is_about() -> None:
    there, back = steps({**SEND, "values": [15, 16, 17]}, {**SENT, "base_offset": 0})
    assert there.label == "send m2 +2"
    assert "values 15 to 17 (m2)" in there.text
    assert "at offsets 0 to 2 of hw-0 (m2 (value 17) at 2)" in back.text
    assert back.label == "ack @2"


def test_send_says_its_transaction_and_that_it_goes_out_again() -> None:
    there, _ = steps({**SEND, "txn": 5, "resends": 12}, SENT)
    assert there.text.endswith("to n1 for hw-0 again (the same batch as before) in transaction 5, acks=all.")


def test_refused_send_was_certainly_not_appended() -> None:
    _, back = steps(SEND, {**SENT, "type": "fail", "error": "NOT_LEADER_OR_FOLLOWER"})
    assert (back.kind, back.text) == (
        "refused",
        "n1 refused it: NOT_LEADER_OR_FOLLOWER. It was certainly not appended.",
    )


@pytest.mark.parametrize("completion", [None, {**SENT, "type": "info", "error": "TIMEOUT"}])
def test_send_without_an_answer_leaves_open_whether_it_was_appended(completion: dict[str, Any] | None) -> None:
    lines = [SEND] if completion is None else [SEND, completion]
    _, silence = steps(*lines)
    assert (silence.kind, silence.to) == ("silence", None)
    assert "whether it was appended is not known" in silence.text
    assert ("TIMEOUT" in silence.text) == (completion is not None)


def test_poll_says_what_it_returned_at_the_offset() -> None:
    (read,) = steps(POLL, POLLED)
    assert read.text == (
        "n2 returned offsets 0 to 2 of hw-0 to the final read, asked from 0 on: at offset 2 value 99, not m2 "
        "(value 17). Its high watermark was 3."
    )
    assert (read.lanes, read.to, read.label) == (("n2",), "clients", "read 99 @2")


def test_poll_that_passes_over_the_offset_says_so() -> None:
    (read,) = steps(POLL, {**POLLED, "records": POLLED["records"][:2]})
    assert "it passed over offset 2, without a record" in read.text
    assert read.label == "nothing @2"


def test_poll_of_another_partition_says_nothing_of_the_offset() -> None:
    (read,) = steps({**POLL, "partition": 1}, POLLED)
    assert "at offset 2" not in read.text


def test_poll_that_failed_says_why() -> None:
    (read,) = steps(POLL, {**POLLED, "type": "fail", "error": "OFFSET_OUT_OF_RANGE"})
    assert read.text.endswith("asked n2 for the records of hw-0 from offset 0 on, and got none: OFFSET_OUT_OF_RANGE.")


@pytest.mark.parametrize(
    ("said", "answer", "text"),
    [
        (
            {"f": "commit_offsets", "group": "g", "offsets": [{"p": "hw-0", "offset": 9}]},
            {},
            "Client 3 committed offset 9 of hw-0 of group g at n1: done.",
        ),
        (
            {"f": "alter_config", "topic": "a", "config": "retention.ms", "setting": 5000},
            {},
            "Client 3 set retention.ms to 5000 of topic a at n1: done.",
        ),
        (
            {"f": "count_partitions", "topic": "a"},
            {"count": 4},
            "Client 3 asked how many partitions topic a has at n1: count 4.",
        ),
        (
            {"f": "fetch_offsets", "group": "g", "partitions": ["hw-0"]},
            {"offsets": [{"p": "hw-0", "offset": 4}]},
            "Client 3 asked for the committed offsets of group g at n1: offset 4 of hw-0.",
        ),
        (
            {"f": "fetch_offsets", "group": "g", "partitions": ["hw-0"]},
            {"offsets": [{"p": "hw-0", "offset": -1}]},
            "Client 3 asked for the committed offsets of group g at n1: no offset of hw-0.",
        ),
        ({"f": "end_txn", "txn": 5, "commit": True}, {}, "Client 3 asked to commit transaction 5 at n1: done."),
        ({"f": "join", "group": "g"}, {"generation": 7}, "Client 3 joined group g at n1: generation 7."),
        (
            {"f": "list_offsets", "timestamp": -1},
            {"offset": 3},
            "Client 3 asked for the end offset of hw-0 at n1: offset 3.",
        ),
        ({"f": "frobnicate"}, {}, "Client 3 called frobnicate at n1: done."),
    ],
    ids=lambda said: str(said.get("f", "")) if isinstance(said, dict) else "",
)
def test_other_operations_are_one_step(said: dict[str, Any], answer: dict[str, Any], text: str) -> None:
    completion = {key: value for key, value in SENT.items() if key != "base_offset"}
    (step,) = steps({**SEND, **said}, {**completion, **answer})
    assert step.text == text


def test_line_without_times_makes_no_step() -> None:
    assert steps({"f": "send", "type": "ok", "values": [17]}) == []
