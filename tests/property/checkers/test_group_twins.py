"""Checkers of groups against their plain twins, on lives of a model and on damage to them, in one Spark pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkers.groups.families import of_groups
from checkers.history.load import load_history
from checkers.verdicts.jobs import collect_families
from tests.support.group_twins import GROUP_TWINS
from tests.support.histories import merged, write_history
from tests.support.judging import pyspark_sockets
from tests.support.model_groups import PARTITIONS, GroupLife
from tests.support.twins import operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

VALID_LIVES = 30
DAMAGED = 143
ONE_NODE = (411, 472)
"""Seeds of lives in which a commit is shown, and gone, by what one node returns, and nothing else shows it."""
Lines = list[dict[str, Any]]


def _pick(rng: Random, lines: Lines, f: str, outcome: str = "ok") -> dict[str, Any]:
    return rng.choice([line for line in lines if line.get("f") == f and line["type"] == outcome])


def _other_owner(rng: Random, lines: Lines) -> None:
    """A member is given what another has."""
    given = [line for line in lines if line.get("f") == "sync" and line["type"] == "ok" and line["partitions"]]
    _pick(rng, lines, "sync")["partitions"] = list(rng.choice(given)["partitions"])


def _other_offset(rng: Random, lines: Lines) -> None:
    offset = rng.choice(_pick(rng, lines, "fetch_offsets")["offsets"])
    offset["offset"] = max(-1, offset["offset"] + rng.choice((-2, -1, 1)))


def _shown_and_gone(rng: Random, lines: Lines) -> None:
    """A fetch shows a commit that got no answer; what comes after it may not."""
    told = [line for line in lines if line.get("f") == "commit_offsets" and line["type"] in ("ok", "info")]
    answer = rng.choice(told)
    answer["type"] = "info"
    commit = lines[answer["invoke"]]
    later = [line for line in lines[commit["index"] :] if line.get("f") == "fetch_offsets" and line["type"] == "ok"]
    shown = [one for line in later for one in line["offsets"] if one["p"] == commit["offsets"][0]["p"]]
    if shown:
        rng.choice(shown)["offset"] = commit["offsets"][0]["offset"]


def _shown_once(rng: Random, lines: Lines) -> None:
    """One of a node's fetches, which the next one repeats, shows a commit that gets no answer."""
    shown: dict[tuple[str, str], dict[str, Any]] = {}
    tries = []
    for line in lines:
        if line.get("f") != "fetch_offsets" or line["type"] != "ok":
            continue
        (one,) = line["offsets"]
        last = shown.get((lines[line["invoke"]]["node"], one["p"]))
        if last is not None and last["offset"] == one["offset"]:
            tries += [
                (last, answer)
                for answer in lines[: line["invoke"]]
                if answer.get("f") == "commit_offsets" and answer["type"] in ("ok", "info")
                for commit in lines[answer["invoke"]]["offsets"]
                if commit["p"] == one["p"] and commit["offset"] != one["offset"]
            ]
        shown[lines[line["invoke"]]["node"], one["p"]] = one
    if tries:
        fetch, answer = rng.choice(tries)
        answer["type"] = "info"
        fetch["offset"] = lines[answer["invoke"]]["offsets"][0]["offset"]


def _other_commit(rng: Random, lines: Lines) -> None:
    rng.choice(_pick(rng, lines, "commit_offsets", "invoke")["offsets"])["offset"] += rng.choice((-1, 1, 40))


def _accepted_zombie(rng: Random, lines: Lines) -> None:
    refused = [line for line in lines if line.get("f") == "commit_offsets" and line["type"] == "fail"]
    if refused:
        rng.choice(refused)["type"] = "ok"


def _believed_zombie(rng: Random, lines: Lines) -> None:
    refused = [line for line in lines if line.get("f") == "heartbeat" and line["type"] == "fail"]
    if refused:
        rng.choice(refused)["type"] = "ok"


def _other_id(rng: Random, lines: Lines) -> None:
    _pick(rng, lines, "join")["member"] = _pick(rng, lines, "join")["member"]


def _other_generation(rng: Random, lines: Lines) -> None:
    line = _pick(rng, lines, *rng.choice((("join", "ok"), ("sync", "invoke"))))
    line["generation"] = max(0, line["generation"] + rng.choice((-2, -1, 1)))


def _moved_return(rng: Random, lines: Lines) -> None:
    """A static member that came back is answered with a generation of its own."""
    returns = [line for line in lines if line.get("f") == "join" and line["type"] == "invoke" and line.get("instance")]
    later = [line for line in returns[len(returns) // 2 :] if lines[line["index"] + 1]["type"] == "ok"]
    if later:
        lines[rng.choice(later)["index"] + 1]["generation"] += 1


def _other_node(rng: Random, lines: Lines) -> None:
    _pick(rng, lines, rng.choice(("fetch_offsets", "commit_offsets", "sync", "join")), "invoke")["node"] = rng.choice(
        ("n1", "n2", "n3")
    )


DAMAGE: tuple[Callable[[Random, Lines], None], ...] = (
    _other_owner,
    _other_offset,
    _other_commit,
    _accepted_zombie,
    _believed_zombie,
    _other_id,
    _other_generation,
    _other_node,
    _moved_return,
    _shown_and_gone,
    _shown_once,
)


def _lives() -> dict[str, Lines]:
    lives: dict[str, Lines] = {}
    for seed in (*range(VALID_LIVES + DAMAGED), *ONE_NODE):
        rng = Random(seed)
        name = f"valid{seed}" if seed < VALID_LIVES else f"damaged{seed}"
        life = GroupLife(rng, name)
        life.live(25)
        lines = copy.deepcopy(life.story.lines)
        if seed >= VALID_LIVES:
            DAMAGE[seed % len(DAMAGE)](rng, lines)
            if seed % 4 == 3:
                rng.choice(DAMAGE)(rng, lines)
        lives[name] = lines
    return lives


LIVES = _lives()


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Topic → checkers that found something."""
    folder = tmp_path_factory.mktemp("groups")
    with pyspark_sockets():
        history, health = load_history(
            spark, write_history(folder / "history.jsonl", merged(LIVES)), folder / "parquet"
        )
        assert not health.problems, health.problems
        rows = collect_families(of_groups(history), witnesses=1000)
    return {
        topic: {row.checker for row in rows if row.kind == "invalid" and row.p in of_topic(topic)} for topic in LIVES
    }


def of_topic(topic: str) -> set[str]:
    return {f"{topic}-{partition}" for partition in range(PARTITIONS)}


@pytest.mark.parametrize("topic", [topic for topic in LIVES if topic.startswith("valid")])
def test_a_group_s_life_is_valid_in_every_respect(found: dict[str, set[str]], topic: str) -> None:
    assert found[topic] == set()


@pytest.mark.parametrize("topic", LIVES)
def test_every_checker_of_groups_finds_what_its_twin_finds(found: dict[str, set[str]], topic: str) -> None:
    ops = operations(LIVES[topic])
    assert found[topic] == {name for name, twin in GROUP_TWINS.items() if twin(ops)}


def test_damage_to_groups_shows_every_anomaly_somewhere() -> None:
    seen = {name for lines in LIVES.values() for name, twin in GROUP_TWINS.items() if twin(operations(lines))}
    # An oracle that never says anything would agree with anything.
    assert seen == set(GROUP_TWINS)
