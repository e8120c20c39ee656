"""What a replica's log holds at an offset: a record, one of a transaction, a marker, one below its start, nothing."""

from __future__ import annotations

import pytest

from harness.report.life.holdings import Holding, below_start, holding
from tests.support.life_files import ended, replica, run_files, sent

pytestmark = pytest.mark.guarantee("V6")


def held(contents: dict[str, bytes], offset: int) -> Holding:
    return holding(run_files(contents), "n1", "hw-0", offset)


LOG = replica(
    "n1",
    sent(0, 1, 70, producer=5),
    sent(1, 1, 71, producer=6),
    sent(2, 1, 72),
    ended(3, 1, 5, committed=True),
    ended(4, 2, 6, committed=False),
    sent(5, 2, 73, producer=5),
)


@pytest.mark.parametrize(
    ("offset", "kind", "value", "epoch", "text"),
    [
        (
            0,
            "record",
            70,
            1,
            "value 70 at offset 0, of leader epoch 1, in a transaction of producer 5 (producer epoch 0), "
            "committed by the marker at offset 3",
        ),
        (
            1,
            "record",
            71,
            1,
            "value 71 at offset 1, of leader epoch 1, in a transaction of producer 6 (producer epoch 0), "
            "aborted by the marker at offset 4",
        ),
        (2, "record", 72, 1, "value 72 at offset 2, of leader epoch 1"),
        (
            3,
            "marker",
            None,
            1,
            "the commit marker of producer 5 (producer epoch 0) at offset 3, of leader epoch 1",
        ),
        (4, "marker", None, 2, "the abort marker of producer 6 (producer epoch 0) at offset 4, of leader epoch 2"),
        (
            5,
            "record",
            73,
            2,
            "value 73 at offset 5, of leader epoch 2, in a transaction of producer 5 (producer epoch 0), "
            "of which this log holds no marker",
        ),
        (6, "beyond", None, None, "its log ends at offset 6, before it"),
    ],
)
def test_what_stands_at_an_offset(offset: int, kind: str, value: int | None, epoch: int | None, text: str) -> None:
    marker = {0: 3, 1: 4}.get(offset)
    assert held(LOG, offset) == Holding("n1", f"n1: {text}.", kind, value, epoch, marker)


def test_marker_may_stand_in_a_later_segment_and_damage_before_it_is_said() -> None:
    later = {**replica("n1", sent(0, 1, 70, producer=5)), **replica("n1", ended(1, 1, 5, committed=True), first=1)}
    assert held(later, 0).text.endswith("committed by the marker at offset 1.")
    between = {
        **replica("n1", sent(0, 1, 70, producer=5), ended(1, 1, 5, committed=False)),
        **replica("n1", sent(2, 1, 71), first=2),
    }
    assert held(between, 0).text.endswith("aborted by the marker at offset 1.")
    damaged = {**replica("n1", sent(0, 1, 70, producer=5)), **replica("n1", b"\0" * 80, first=1)}
    found = held(damaged, 0)
    assert found.value == 70
    assert "whose marker was not found before corrupt batch" in found.text


def test_replica_is_found_in_any_log_dir_and_a_deleted_one_is_named() -> None:
    assert held(replica("n1", sent(0, 1, 70), log_dir="d2/"), 0).value == 70
    gone = held({"evidence/n1/data/hw-0.0123abcd-delete/00000000000000000000.log": b""}, 0)
    assert (gone.kind, gone.text) == (
        "missing",
        "n1: no files of hw-0 were copied. A folder of hw-0 that waited for its deletion is there.",
    )
    assert held({"evidence/n1/data/hw-1/00000000000000000000.log": b""}, 0).text == "n1: no files of hw-0 were copied."


def test_record_below_the_log_start_is_shown_to_nobody() -> None:
    found = held(LOG, 2)
    hidden = below_start(found, 4, 2)
    assert (hidden.kind, hidden.value) == ("below", 72)
    assert hidden.text == (
        "n1: value 72 at offset 2, of leader epoch 1; its log start is 4, so that it is shown to nobody."
    )
    assert below_start(found, 2, 2) == below_start(found, None, 2) == found
