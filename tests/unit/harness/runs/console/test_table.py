from __future__ import annotations

import re
from dataclasses import replace

import pytest

from harness.runs.console.picture import ActiveFault, PartitionLine, Phase, Picture
from harness.runs.console.table import render, sparkline

EMPTY = Picture(Phase("setup", 1, 9, None))


def partitions(count: int) -> list[tuple[int, PartitionLine]]:
    return [(index, PartitionLine("n1", 3, (1, 2, 3), 10 * index, 7 * index)) for index in range(count)]


def busy(factor: int, count: int = 4) -> Picture:
    return Picture(
        phase=Phase("main", 2, 9, 60.0 * factor, 11.0 * factor),
        doing="what goes on " * factor,
        elapsed_s=71.0 * factor,
        totals={"ok": 1234 * factor, "fail": 5 * factor, "info": factor},
        rates={"ok": 99.5 * factor, "fail": 1.2 * factor, "info": 0.1 * factor},
        ok_by_second=[factor * n for n in range(60)],
        p50_ms=1.25 * factor,
        p99_ms=3.5 * factor,
        faults_done=factor,
        faults=[ActiveFault("isolate n1,n2,n3", 3.0 * factor)] * factor,
        coming="next: isolate on transaction-coordinator in 12 s",
        partitions=partitions(count),
        last_error="send at n1: NOT_ENOUGH_REPLICAS " * factor,
        last_error_age_s=5.0 * factor,
    )


JUDGED = replace(busy(9, count=500), so_far="INVALID so far: duplicate (3), judged to 31 s " * 9)


@pytest.mark.parametrize("picture", [EMPTY, busy(1), busy(30), busy(9, count=500), JUDGED])
@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 40), (60, 24), (250, 60)])
def test_table_is_no_wider_and_no_higher_than_the_terminal(picture: Picture, width: int, height: int) -> None:
    lines = render("highwater demo seed 7", picture, width=width, height=height).plain.split("\n")
    assert {len(line) for line in lines} == {min(width - 1, 119)}
    assert len(lines) < height


def columns(picture: Picture) -> list[list[int]]:
    """Where the words of the fixed lines end that a figure precedes, and where the partitions' columns end."""
    text = render("t", picture).plain.split("\n")
    operations = [[found.end() for found in re.finditer(r"/s|\d(?= {3})", line)][:2] for line in text[3:6]]
    return [*operations, [found.end() for found in re.finditer(r"\S+", text[10])]]


def test_table_figures_stand_in_the_same_columns_whatever_they_are() -> None:
    assert columns(busy(1)) == columns(busy(30)) == columns(busy(900))


def test_table_has_the_same_lines_for_the_same_partitions() -> None:
    assert len(render("t", busy(1)).plain.split("\n")) == len(render("t", busy(30)).plain.split("\n"))


def test_table_says_everything_at_80_columns() -> None:
    text = render("highwater demo seed 7", busy(1)).plain
    for part in (
        "highwater demo seed 7",
        "1:11 in all",
        "phase 2 of 9",
        "0:11 of 1:00",
        "what goes on",
        "100/s",
        "1,234",
        "p50      1.2 ms",
        "p99      3.5 ms",
        "1 done  1 active",
        "next: isolate on transaction-coordinator in 12 s",
        "isolate n1,n2,n3 0:03",
        "0:05 ago  send at n1: NOT_ENOUGH_REPLICAS",
    ):
        assert part in text


def test_table_shows_the_first_partitions_and_counts_those_that_do_not_fit() -> None:
    lines = render("t", busy(1, count=40), height=24).plain.split("\n")
    shown = [line for line in lines if re.match(r"\d+ +n1 ", line)]
    assert [int(line.split()[0]) for line in shown] == list(range(11))
    assert any(line.startswith("and 29 more") for line in lines)


def test_table_shows_all_partitions_where_they_just_fit() -> None:
    lines = render("t", busy(1, count=12), height=24).plain.split("\n")
    assert len([line for line in lines if re.match(r"\d+ +n1 ", line)]) == 12
    assert "more" not in "\n".join(lines)


def test_table_of_the_analysis_says_how_many_jobs_are_done_and_its_bar_follows() -> None:
    def full(done: int) -> int:
        picture = Picture(Phase("analysis", 9, 9, None), jobs=(done, 61))
        text = render("t", picture).plain
        assert f"analysis: {done} of 61 jobs" in text
        return text.count("█")

    assert full(0) < full(61) == 24


def test_table_error_of_several_lines_takes_one() -> None:
    picture = Picture(EMPTY.phase, last_error="broken\nat line 3", last_error_age_s=1.0)
    assert "broken at line 3" in render("t", picture).plain


def test_table_for_a_terminal_that_shows_ascii_only_is_ascii() -> None:
    for picture in (EMPTY, busy(1), busy(30), busy(9, count=500)):
        assert render("t", picture, ascii_only=True).plain.isascii()


def test_sparkline_has_the_newest_at_the_right_and_shows_whatever_is_not_nothing() -> None:
    assert sparkline([0, 1, 500, 1000], 6) == "   ▁▄█"
    assert sparkline([5, 5, 5], 2) == "██"
    assert sparkline([0, 0], 3) == "   "


def test_table_says_the_verdict_so_far_where_there_is_one() -> None:
    shown = render("title", replace(busy(1), so_far="INVALID so far: hole (2), judged to 3 s"))
    assert [line.rstrip() for line in shown.plain.split("\n") if "so far" in line] == [
        "verdict    INVALID so far: hole (2), judged to 3 s"
    ]
    assert "verdict " not in render("title", busy(1)).plain
