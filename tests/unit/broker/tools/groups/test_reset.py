from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from broker.tools.client.errors import ToolError
from broker.tools.groups.command import checked
from broker.tools.groups.reset import export, parse_datetime, parse_duration, parse_partitions, parse_plan

SERVER = ("--bootstrap-server", "a:1")


@pytest.fixture
def far_from_greenwich(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "EST+5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_greenwich")
@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01.500", 1500),
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T01:00:00.000+01:00", 0),
        ("1970-01-01T01:00:00.000+0100", 0),
        ("2020-02-29T12:00:00", 1582977600000),
    ],
)
def test_times_are_utc_unless_they_say_another_zone(text: str, ms: int) -> None:
    assert parse_datetime(text) == ms


@pytest.mark.parametrize("text", ["2020-01-01", "yesterday", "2020-01-01 00:00:00", ""])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ToolError, match="ISO 8601"):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("P1D", timedelta(days=1)),
        ("PT1H30M", timedelta(minutes=90)),
        ("P2DT0.5S", timedelta(days=2, milliseconds=500)),
        ("-PT1M", timedelta(minutes=-1)),
        ("PT-1M", timedelta(minutes=-1)),
    ],
)
def test_durations_are_those_of_iso_8601(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["P", "PT", "1D", "P1M", "P1DT"[:1], "P１D", ""])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ToolError, match="PnDTnHnMnS is wanted"):
        parse_duration(text)


def test_duration_beyond_what_there_is_is_refused() -> None:
    with pytest.raises(ToolError, match=r"'PT9{20}H' is longer than 999999999 days"):
        parse_duration(f"PT{'9' * 20}H")


def test_plan_that_is_no_csv_is_refused() -> None:
    with pytest.raises(ToolError, match="the reset plan is no CSV: field larger than field limit"):
        parse_plan("t" * 200_000, ["g"])


def test_partitions_of_a_topic_are_named_after_a_colon() -> None:
    assert parse_partitions("t:0,2") == [("t", 0), ("t", 2)]
    for wrong in ("t:x", "t:0:1", "t:", "t:1_0", "t:１"):
        with pytest.raises(ToolError, match=r"in topic arg|expected topic name"):
            parse_partitions(wrong)


def test_plan_that_was_exported_is_read_again() -> None:
    plans = {"g": {("a,b", 0): 5, ("t", 1): 6}}
    assert export(plans, ["g"]) == '"a,b",0,5\nt,1,6\n'
    assert parse_plan(export(plans, ["g"]), ["g"]) == plans
    several = plans | {"h": {("t", 0): 1}}
    assert export(several, []).splitlines()[-1] == "h,t,0,1"
    assert parse_plan(export(several, []), []) == several


@pytest.mark.parametrize("wrong", ["t,0", "t,x,1", "g,t,0,1,2", "t,0,1_0", "t,１,0", "t,0,9223372036854775808"])
def test_line_of_a_plan_that_is_wrong_is_named(wrong: str) -> None:
    with pytest.raises(ToolError, match=r"line 2 of the reset plan: \["):
        parse_plan(f"t,0,1\n{wrong}\n", ["g"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "",
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets or ",
        ),
        ("--describe", "Option [describe] takes one of these options: [group], [all-groups]"),
        ("--describe --group g --members --offsets", "Option [describe] takes at most one of these options"),
        ("--describe --group g --state Stable", "Option [describe] does not take a value for [state]"),
        ("--delete --group g --topic t", "The consumer does not support topic-specific offset deletion"),
        ("--delete-offsets --group g", "Option [delete-offsets] takes the following options"),
        ("--list --group g", 'Option "[group]" can\'t be used with option "[list]"'),
        ("--describe --group g --all-groups", 'Option "[group]" can\'t be used with option "[all-groups]"'),
        ("--reset-offsets --group g --dry-run --execute", "Option [reset-offsets] only accepts one of"),
        (
            "--reset-offsets --group g --to-latest --to-offset 1",
            'Option "[to-offset]" can\'t be used with option "[to-',
        ),
        ("--list --state Sable", "Invalid state list 'Sable'. Valid states are: PreparingRebalance, "),
        ("--list --type x", "Invalid types list 'x'. Valid types are: Consumer, Classic"),
    ],
)
def test_wrong_options_end_with_1_and_say_why(capsys: pytest.CaptureFixture[str], words: str, said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        checked([*SERVER, *words.split()])
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(said)


def test_options_of_kafkas_tool_are_taken() -> None:
    words = "--reset-offsets --group g --group h --topic t:0 --shift-by -10 --timeout 9"
    options = checked([*SERVER, *words.split(" ")])
    assert (options.action, options.group, options.shift_by, options.timeout) == ("reset-offsets", ["g", "h"], -10, 9)
    assert checked([*SERVER, "--list", "--state"]).state == ""
    assert checked([*SERVER, "--list", "--state", "stable,preparing_rebalance"]).state == "stable,preparing_rebalance"
