"""run.json: what is wrong with it is said by file and key."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from checkers.cli import CRASH, main
from checkers.coverage.missing_evidence import run_reasons
from checkers.history.health import HistoryHealth
from checkers.history.run_info import UnreadableRun, load_run_info
from tests.support.run_damage import damage

RUN: dict[str, Any] = {
    "schema": 1,
    "topic": {"name": "hw", "partitions": 2, "replication_factor": 3, "min_insync_replicas": 2},
    "system": {
        "settings": {"zookeeper.session.timeout.ms": 6000},
        "broker": {"2": {"zookeeper.session.timeout.ms": 9000}},
    },
    "nodes": [
        {"name": "n1", "role": "broker", "broker_id": 1},
        {"name": "zk1", "role": "zookeeper", "broker_id": None},
    ],
    "finished": True,
}


def _write(folder: Path, **changes: Any) -> Path:
    (folder / "run.json").write_text(json.dumps({**RUN, **changes}))
    return folder


def test_run_info_without_a_list_of_checkers_names_all(tmp_path: Path) -> None:
    assert load_run_info(_write(tmp_path)).wants("duplicate")
    asked = load_run_info(_write(tmp_path, checkers=["lost-write"]))
    assert (asked.wants("lost-write"), asked.wants("duplicate")) == (True, False)


@pytest.mark.parametrize(
    ("system", "ways"),
    [
        ({}, {"n1": "leader-epoch"}),
        ({"settings": {"replica.truncation": "high-watermark"}}, {"n1": "high-watermark"}),
        ({"broker": {"1": {"replica.truncation": "high-watermark"}}}, {"n1": "high-watermark"}),
        ({"broker": {"2": {"replica.truncation": "high-watermark"}}}, {"n1": "leader-epoch"}),
        ({"kind": "kafka"}, {}),
    ],
)
def test_run_info_knows_by_what_each_broker_was_to_cut_its_log(
    tmp_path: Path, system: dict[str, Any], ways: dict[str, str]
) -> None:
    assert load_run_info(_write(tmp_path, system=system)).truncation == ways


@pytest.mark.parametrize(("asked", "wrong"), [([], "no checker at all"), (["lost-write", "lost-wirte"], "lost-wirte")])
def test_run_that_names_no_known_checker_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[str], wrong: str
) -> None:
    """A run judged by nothing would be valid; and the verdict of an earlier analysis must not stand for it."""
    for name in ("results.json", "series.json"):
        (tmp_path / name).write_text("{}")
    assert main([str(_write(tmp_path, checkers=asked))]) == CRASH
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert f"run.json: checkers: {wrong}; there are fabricated-value, " in capsys.readouterr().err


def test_run_whose_brackets_are_nested_too_deeply_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema": 1, "a": ' + "[" * 100_000)
    with pytest.raises(UnreadableRun, match=r"run\.json: cannot be read: brackets are nested too deeply"):
        load_run_info(tmp_path)


@pytest.mark.parametrize(
    ("kinds", "skews"),
    [
        (None, True),
        ({}, False),
        ({"kill": {"family": "process", "effects": ["stops-process"]}}, False),
        ({"time-travel": {"family": "toy", "effects": ["skews-clock"]}}, True),
    ],
)
def test_run_info_knows_faults_that_skew_clocks_by_their_effects(
    tmp_path: Path, kinds: dict[str, Any] | None, skews: bool
) -> None:
    changes = {} if kinds is None else {"fault_kinds": kinds}
    assert load_run_info(_write(tmp_path, **changes)).skews_clocks is skews


SAYS_ALL: dict[str, Any] = {"origin_monotonic_ns": 0, "origin_wall_ns": 1_800_000_000_000_000_000}


@pytest.mark.parametrize(
    ("changes", "lacking"),
    [
        ({}, []),
        ({"origin_wall_ns": None}, ["origin_wall_ns"]),
        ({"origin_monotonic_ns": None}, ["origin_monotonic_ns"]),
        ({"topic": {"name": "hw", "partitions": 2}}, ["topic.replication_factor", "topic.min_insync_replicas"]),
        ({"nodes": [{"name": "n1"}, {"name": "zk1", "role": "zookeeper"}]}, ["broker_id of n1"]),
        # Of a history from elsewhere nobody knows of nodes.
        ({"origin_wall_ns": None, "imported": {"from": "jepsen"}}, []),
    ],
)
def test_run_that_does_not_say_what_rules_go_by_is_not_valid(
    tmp_path: Path, changes: dict[str, Any], lacking: list[str]
) -> None:
    """Without its origin no line of an event log is from before the drain; without a minimum 1 would do."""
    reasons = run_reasons(load_run_info(_write(tmp_path, **{**SAYS_ALL, **changes})), HistoryHealth(7, 1, 0, ()))
    assert reasons == ([f"run.json does not say {', '.join(lacking)}"] if lacking else [])


def test_run_info_names_partitions_and_nodes(tmp_path: Path) -> None:
    info = load_run_info(_write(tmp_path))
    assert info.partitions == ("hw-0", "hw-1")
    assert [node.name for node in info.brokers] == ["n1"]
    assert [node.name for node in info.zookeepers] == ["zk1"]


def test_run_info_takes_the_longest_session_of_any_broker(tmp_path: Path) -> None:
    assert load_run_info(_write(tmp_path)).session_timeout_ms == 9000


def test_run_info_takes_the_least_that_any_broker_demands_unless_the_topic_says(tmp_path: Path) -> None:
    system = {"broker": {"3": {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}}}
    info = load_run_info(_write(tmp_path, system=system))
    assert (info.min_insync_replicas, info.unclean) == (1, True)
    config = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    info = load_run_info(_write(tmp_path, system=system, topic={**RUN["topic"], "config": config}))
    assert (info.min_insync_replicas, info.unclean) == (2, False)


@pytest.mark.parametrize(("asked", "longest"), [(100, 189), (1000, 1089), (0, 134), (None, 1_001_000)])
def test_run_info_knows_what_a_record_adds_to_a_log_at_most(tmp_path: Path, asked: int | None, longest: int) -> None:
    workload = {} if asked is None else {"record_bytes": asked}
    assert load_run_info(_write(tmp_path, workload=workload)).record_bytes == longest


def test_run_info_reads_the_topic_s_own_retention(tmp_path: Path) -> None:
    info = load_run_info(_write(tmp_path, topic={**RUN["topic"], "config": {"retention.ms": "1000"}}))
    assert info.retention.time_ms == 1000


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"schema": 2}, "schema is 2, these checkers read 1"),
        ({"topic": {"name": "hw"}}, "'partitions'"),
        ({"topic": {"name": "hw", "partitions": "many"}}, "many"),
    ],
)
def test_run_info_that_cannot_be_used_says_why(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(UnreadableRun, match=text) as raised:
        load_run_info(_write(tmp_path, **changes))
    assert str(tmp_path / "run.json") in str(raised.value)


def test_command_without_a_run_ends_255_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == CRASH
    assert "run.json: not there" in capsys.readouterr().err


def test_command_with_unknown_option_ends_254() -> None:
    with pytest.raises(SystemExit) as raised:
        main(["--nonsense"])
    assert raised.value.code == 254


@pytest.mark.parametrize(
    ("policy", "compacted"), [(None, False), ("delete", False), ("compact", True), ("compact,delete", True)]
)
def test_run_info_says_whether_the_topic_is_compacted(tmp_path: Path, policy: str | None, compacted: bool) -> None:
    config = {} if policy is None else {"cleanup.policy": policy}
    assert load_run_info(_write(tmp_path, topic={**RUN["topic"], "config": config})).compacted == compacted


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schema": 2}, "schema is 2, these checkers read 1"),
        ({"topic": {"name": "hw", "partitions": 0}}, "topic.partitions is 0, should be 1 to 1000000"),
        ({"topic": {"name": "hw", "partitions": 1 << 40}}, "topic.partitions is 1099511627776"),
        ({"topic": {"name": "hw"}}, "KeyError: 'partitions'"),
        ({"topic": ["hw"]}, "AttributeError"),
        ({"workload": ["acks"]}, "AttributeError"),
        ({"checks": "none"}, "AttributeError"),
        ({"recorded": [1]}, "AttributeError"),
        ({"origin_wall_ns": 1 << 63}, "9223372036854775808 is no whole number of 64 bits"),
        ({"nodes": [{"name": "n1", "broker_id": -(1 << 70)}]}, "is no whole number of 64 bits"),
    ],
)
def test_run_json_that_says_what_it_cannot_is_refused(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(UnreadableRun) as caught:
        load_run_info(_write(tmp_path, **changes))
    assert str(caught.value).startswith(f"{tmp_path / 'run.json'}: ")
    assert told in str(caught.value)


def test_run_json_with_any_field_changed_is_read_or_refused(tmp_path: Path) -> None:
    """Of 500 that were edited by chance, none ends in another error."""
    for seed in range(500):
        _write(tmp_path)
        what = damage(tmp_path, "run.json: edited", Random(seed))
        try:
            load_run_info(tmp_path)
        except UnreadableRun:
            continue
        except Exception as error:
            raise AssertionError(what) from error
