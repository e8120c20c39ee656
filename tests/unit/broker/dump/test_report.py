"""What is told when, and what makes the exit code."""

from __future__ import annotations

import io

import pytest

from broker.dump import cli
from broker.dump.report import PAIRS_MAX, Finding, Report


def reports() -> tuple[Report, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Report(out, err), out, err


def test_findings_come_at_the_end_by_kind_and_file() -> None:
    report, out, err = reports()
    report.pair(Finding.NON_CONSECUTIVE, "/a.log", 4, 6)
    report.pair(Finding.TIME_MISMATCH, "/a.timeindex", 1, 2)
    report.pair(Finding.INDEX_MISMATCH, "/a.index", 7, 8)
    report.pair(Finding.OFFSET_NOT_FOUND, "/a.timeindex", 5, -1)
    report.pair(Finding.TIME_ORDER, "/a.timeindex", 5, 9)
    report.pair(Finding.INDEX_MISMATCH, "/b.index", 1, 2)
    report.pair(Finding.INDEX_MISMATCH, "/a.index", 9, 10)
    assert (out.getvalue(), err.getvalue()) == ("", "")
    report.close()
    assert err.getvalue().splitlines() == [
        "Mismatches in :/a.index",
        "  Index offset: 7, log offset: 8",
        "  Index offset: 9, log offset: 10",
        "Mismatches in :/b.index",
        "  Index offset: 1, log offset: 2",
        "Found timestamp mismatch in :/a.timeindex",
        "  Index timestamp: 1, log timestamp: 2",
        "Found out of order timestamp in :/a.timeindex",
        "  Index timestamp: 5, Previously indexed timestamp: 9",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 5, found log offset: -1",
        "Non-consecutive offsets in /a.log",
        "  4 is followed by 6",
    ]


def test_findings_beyond_the_most_are_counted_not_kept() -> None:
    report, _, err = reports()
    for number in range(PAIRS_MAX + 5):
        report.pair(Finding.NON_CONSECUTIVE, "/a.log", number, number + 2, harmless=True)
    report.close()
    lines = err.getvalue().splitlines()
    assert len(lines) == 1 + PAIRS_MAX + 1
    assert lines[-1] == "  and 5 more"


def test_only_what_is_wrong_counts_as_wrong() -> None:
    report, out, err = reports()
    report.line("all is well")
    report.pair(Finding.NON_CONSECUTIVE, "/a.log", 1, 3, harmless=True)
    assert not report.wrong
    report.problem("x.log", "at position 5: is torn")
    assert report.wrong
    assert out.getvalue() == "all is well\n"
    assert err.getvalue() == "x.log: at position 5: is torn\n"
    report, _, _ = reports()
    report.pair(Finding.INDEX_MISMATCH, "/a.index", 1, 3)
    assert report.wrong


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "--files"),
        (["--files", ","], "names no file"),
        (["--files", "a.log", "--max-bytes", "0"], "'0' must be a whole number from 1 to 2147483647"),
        (["--files", "a.log", "--max-message-size", "x"], "'x' must be a whole number"),
        (["--files", "a.log", "--value-decoder-class", "Avro"], "'Avro' is no decoder"),
        (["--files", "a.log", "--cluster-metadata-decoder"], "unrecognized arguments: --cluster"),
    ],
)
def test_wrong_usage_exits_with_two_and_says_what_would_be_right(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(argv)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
