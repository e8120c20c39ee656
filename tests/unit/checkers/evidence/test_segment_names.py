"""Which files of a node's folder are segments of its replicas' logs."""

from __future__ import annotations

from checkers.evidence.segment_tasks import Segment, log_dirs, segments_below

FIRST, SECOND = "00000000000000000000.log", "00000000000000000007.log"


def test_segments_of_a_partition_are_in_the_order_of_offsets_and_the_last_is_known() -> None:
    sizes = {
        f"data/hw-0/{SECOND}": 2,
        f"data/hw-0/{FIRST}": 1,
        f"data/hw-1/{FIRST}": 3,
        "data/hw-0/00000000000000000000.index": 9,
        f"data/hw-2.0f-delete/{FIRST}": 9,
        f"data/hw-0/deeper/{FIRST}": 9,
        "data/broker.log": 9,
        f"logs/hw-0/{FIRST}": 9,
        "data/replication-offset-checkpoint": 9,
    }
    assert segments_below("n1", sizes) == [
        Segment("n1", "hw-0", f"n1/data/hw-0/{FIRST}", 1, False),
        Segment("n1", "hw-0", f"n1/data/hw-0/{SECOND}", 2, True),
        Segment("n1", "hw-1", f"n1/data/hw-1/{FIRST}", 3, True),
    ]


def test_log_dirs_are_below_the_data_folder_where_a_broker_has_several() -> None:
    several = [f"data/b/hw-0/{FIRST}", f"data/a/hw-1/{FIRST}", "data/a/replication-offset-checkpoint", "data/c/notes"]
    assert log_dirs(several) == ["data/a", "data/b"]
    assert [one.name for one in segments_below("n1", dict.fromkeys(several, 1))] == [
        f"n1/data/a/hw-1/{FIRST}",
        f"n1/data/b/hw-0/{FIRST}",
    ]
    assert (
        log_dirs(["data/replication-offset-checkpoint"]) == log_dirs(["data/hw-0/x.index"]) == log_dirs([]) == ["data"]
    )
