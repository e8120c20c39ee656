from __future__ import annotations

from harness.runs.console.picture import ActiveFault, PartitionLine, Phase, Picture
from harness.runs.console.plain import PARTITIONS_MOST, phase_line, plain

MAIN = Phase("main", 2, 9, 60.0, 12.0)


def test_phase_line_says_place_limit_and_how_long_the_one_before_took() -> None:
    assert phase_line(Phase("setup", 1, 9, 60.0), 0.0) == "phase 1 of 9: setup, at most 60 s"
    assert phase_line(Phase("heal", 3, None, None), 60.25) == "phase 3: heal (the one before took 60.2 s)"


def test_plain_line_has_rates_latencies_faults_and_the_age_of_the_last_error() -> None:
    picture = Picture(
        MAIN,
        rates={"ok": 312.4, "fail": 3.0, "info": 0.0},
        p50_ms=1.24,
        p99_ms=40.06,
        faults_done=3,
        faults=[ActiveFault("pause n1", 4.4)],
        coming="next: kill on leader in 3 s",
        partitions=[(0, PartitionLine("n2", 4, (2, 3), 17, 17))],
        last_error="send at n1: timeout",
        last_error_age_s=2.2,
    )
    assert plain(picture).split(" | ") == [
        "main, 48 s left",
        "312 ok/s 3 fail/s 0 info/s",
        "sends p50 1.2 p99 40.1 ms",
        "faults: 3 done; pause n1 for 4 s; next: kill on leader in 3 s",
        "0:n2[2,3]@17",
        "last error 2 s ago: send at n1: timeout",
    ]


def test_plain_line_says_the_verdict_so_far_where_there_is_one() -> None:
    said = "so far: 8,120 acknowledged, nothing found, judged to 31 s"
    assert plain(Picture(MAIN, so_far=said)) == f"main, 48 s left | 0 ok/s 0 fail/s 0 info/s | {said}"


def test_plain_line_leaves_out_what_there_is_not() -> None:
    assert plain(Picture(Phase("setup", 1, 9, None))) == "setup | 0 ok/s 0 fail/s 0 info/s"


def test_plain_line_names_the_first_partitions_and_counts_the_rest() -> None:
    partitions = [(index, PartitionLine()) for index in range(PARTITIONS_MOST + 5)]
    assert plain(Picture(MAIN, partitions=partitions)).endswith(f"{PARTITIONS_MOST - 1}:-[?]@? and 5 more")


def test_plain_line_of_the_analysis_says_how_many_jobs_are_done() -> None:
    analysis = Phase("analysis", 9, 9, 100.0, 40.0)
    assert plain(Picture(analysis, jobs=(23, 61), last_error="old")) == "analysis: 23 of 61 jobs, 60 s left"
    assert plain(Picture(analysis, jobs=(1, 0))) == "analysis: reading what was recorded, 60 s left"
