"""Gaps of clients: what is read from their output, what counts as a gap, and the table."""

from __future__ import annotations

import pytest

from benchmarks.applications.cli import main, pairs
from benchmarks.applications.gaps import Said, Spread, is_steady, longest_silence_ns, parse, spread
from benchmarks.applications.kills import Gap
from benchmarks.applications.report import table
from benchmarks.applications.roles import Scene
from broker.core.coordination import partition_of

S = 1_000_000_000


def test_successes_and_failures_are_read_from_whole_lines_and_others_are_left() -> None:
    output = "20\nfailed: TimeoutException: x\n% librdkafka says something\n10\n3"
    assert parse(output) == Said((10, 20), ("TimeoutException: x",))


def test_the_gap_begins_at_the_kill_whatever_came_before_it() -> None:
    assert longest_silence_ns([1, 90, 130, 150], 100, 160) == 30


def test_a_later_silence_counts_when_it_is_the_longer_one() -> None:
    assert longest_silence_ns([110, 200, 210], 100, 220) == 90


def test_a_silence_that_lasts_counts_as_far_as_it_was_seen() -> None:
    assert longest_silence_ns([110], 100, 500) == 390
    assert longest_silence_ns([], 100, 500) == 400


def test_a_client_is_steady_when_its_last_seconds_had_no_long_silence() -> None:
    every = [i * S // 10 for i in range(100)]
    assert is_steady(every, every[-1] + S // 10)
    assert not is_steady(every, every[-1] + S)
    assert not is_steady([*every[:90], every[-1]], every[-1])


def test_the_spread_of_gaps() -> None:
    assert spread([]) is None
    assert spread([3.0, 1.0, 2.0]) == Spread(3, 2.0, 3.0, 3.0)
    assert spread([float(value) for value in range(1, 11)]) == Spread(10, 5.5, 9.0, 10.0)


def test_the_table_has_a_line_for_each_role_client_and_system_and_names_what_is_void() -> None:
    gaps = [
        Gap("highwater", "franz-go", "leader", 100.0, 1.0),
        Gap("highwater", "franz-go", "controller", 50.0, 1.0),
        Gap("highwater", "franz-go", "leader", 300.0, 3.0, ("TimeoutException",)),
        Gap("highwater", "franz-go", "leader", 9999.0, 3.0, (), "its process ended: 'x'"),
        Gap("kafka", "franz-go", "leader", 16_500.0, 1.0, (), "its process ended: 'y'"),
    ]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table(gaps).splitlines() if "|" in line]
    assert cells[2:] == [
        ["leader", "franz-go", "highwater", "200", "300", "300", "2", "0.5", "2.0"],
        ["leader", "franz-go", "kafka", "", "", "", "0", "", ""],
        ["controller", "franz-go", "highwater", "50", "50", "50", "1", "0.0", "1.0"],
    ]
    assert table(gaps).splitlines()[-2:] == [
        "void: highwater, franz-go, leader: its process ended: 'x'",
        "void: kafka, franz-go, leader: its process ended: 'y'",
    ]


def test_an_id_is_found_that_the_victim_coordinates() -> None:
    found = Scene(1, 2, frozenset({7}), 50).id_for("app")
    assert partition_of(found, 50) == 7
    assert Scene(1, 1).id_for("app") == "app"


def test_a_client_can_be_left_out_of_one_roles_kills() -> None:
    skipped = [("transaction-coordinator", "kafka-python")]
    assert pairs("leader", ("kafka-python", "java-4"), skipped) == [("leader", "kafka-python"), ("leader", "java-4")]
    assert pairs("transaction-coordinator", ("kafka-python", "java-4"), skipped) == [
        ("transaction-coordinator", "java-4")
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--clients", "java-3.9,sarama"], "'sarama' is none of confluent-kafka, java-3.9"),
        (["--roles", "follower"], "'follower' is none of leader, controller"),
        (["--skip", "leader"], "'leader:' is no role and client, of leader, controller"),
        (["--skip", "leader:java-4,leader:sarama"], "'leader:sarama' is no role and client"),
        (["--kills", "0"], "'0' is no number of kills: 1 or more"),
    ],
)
def test_wrong_usage_is_refused_with_what_is_right(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
