"""Black-box checkers against their plain twins, on lives of a model and on arbitrary damage to them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from checkers.verdicts.catalogue import ALL, PRODUCERS
from checkers.verdicts.verdict import CheckResult
from tests.support.judging import Case, case_of, invalid
from tests.support.model_cluster import random_life
from tests.support.twins import TWINS, operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

VALID_LIVES = 12
DAMAGED = 120
Lines = list[dict[str, Any]]
Judged = dict[str, dict[str, CheckResult]]


def _answered(rng: Random, lines: Lines, f: str) -> dict[str, Any]:
    """The completion of a random ok operation; for polls, one with records."""
    able = [li for li in lines if li.get("f") == f and li["type"] == "ok" and (f != "poll" or li["records"])]
    return rng.choice(able)


def _drop_record(rng: Random, lines: Lines) -> None:
    _answered(rng, lines, "poll")["records"].pop(0)


def _foreign_value(rng: Random, lines: Lines) -> None:
    rng.choice(_answered(rng, lines, "poll")["records"])["value"] = 999_999


def _broken_record(rng: Random, lines: Lines) -> None:
    record = rng.choice(_answered(rng, lines, "poll")["records"])
    record.update(rng.choice(({"intact": False}, {"value": None, "intact": False})))


def _shifted_offset(rng: Random, lines: Lines) -> None:
    _answered(rng, lines, "send")["base_offset"] += rng.choice((-2, -1, 1, 2, 50))


def _swapped_records(rng: Random, lines: Lines) -> None:
    records = _answered(rng, lines, "poll")["records"]
    if len(records) > 1:
        a, b = rng.sample(range(len(records)), 2)
        if rng.random() < 0.5:
            records[a]["value"], records[b]["value"] = records[b]["value"], records[a]["value"]
        else:
            records[a], records[b] = records[b], records[a]


def _lower_hw(rng: Random, lines: Lines) -> None:
    polls = [li for li in lines if li.get("f") == "poll" and li["type"] == "ok" and li["phase"] == "main"]
    poll = rng.choice(polls[len(polls) // 2 :])
    poll["hw"] = poll["lso"] = max(0, poll["hw"] - rng.randint(1, 9))


def _failed_send(rng: Random, lines: Lines) -> None:
    send = _answered(rng, lines, "send")
    send["type"] = "fail"
    send.pop("base_offset")


def _short_answer(rng: Random, lines: Lines) -> None:
    poll = _answered(rng, lines, "poll")
    poll["records"] = poll["records"][:-1]
    poll["next_position"] -= rng.choice((0, 1))


def _moved_poll(rng: Random, lines: Lines) -> None:
    poll = _answered(rng, lines, "poll")
    lines[poll["invoke"]]["position"] = max(0, lines[poll["invoke"]]["position"] + rng.choice((-1, 1)))


def _unread_value(rng: Random, lines: Lines) -> None:
    """Nobody ever read it, whatever offset it was acknowledged at."""
    gone = rng.choice(lines[_answered(rng, lines, "send")["invoke"]]["values"])
    for line in lines:
        if "records" in line:
            line["records"] = [r for r in line["records"] if r["value"] != gone]


def _beyond_the_end(rng: Random, lines: Lines) -> None:
    send = _answered(rng, lines, "send")
    send["base_offset"] += 1000
    gone = set(lines[send["invoke"]]["values"])
    for line in lines:
        if "records" in line:
            line["records"] = [r for r in line["records"] if r["value"] not in gone]


def _client_jumps(rng: Random, lines: Lines) -> None:
    """The real client's second poll of a drain begins elsewhere."""
    able = [li for li in lines if li.get("reader") == "confluent" and li["type"] == "invoke" and li["position"] > 3]
    if able:
        rng.choice(able)["client_position"] += rng.choice((-2, 2))


def _refused_poll(rng: Random, lines: Lines) -> None:
    """A poll of something is out of range."""
    answer = _answered(rng, lines, "poll")
    for name in ("next_position", "hw", "lso", "log_start", "records"):
        answer.pop(name)
    answer.update(type="fail", error="OFFSET_OUT_OF_RANGE")


def _lower_end(rng: Random, lines: Lines) -> None:
    told = _answered(rng, lines, "list_offsets")
    told["offset"] = max(0, told["offset"] - rng.randint(1, 9))


def _untold(lines: Lines, send: dict[str, Any]) -> list[int]:
    """Its answer is lost; returns its values."""
    send["type"] = "info"
    send.pop("base_offset")
    return list(lines[send["invoke"]]["values"])


def _batch(rng: Random, lines: Lines) -> dict[str, Any]:
    """The completion of a random acknowledged send of several records."""
    sends = [line for line in lines if line.get("f") == "send" and line["type"] == "ok"]
    return rng.choice([line for line in sends if len(lines[line["invoke"]]["values"]) > 1] or sends)


def _reversed_batch(rng: Random, lines: Lines) -> None:
    values = _untold(lines, _batch(rng, lines))
    turned = dict(zip(values, reversed(values), strict=True))
    for record in (record for line in lines for record in line.get("records", ())):
        record["value"] = turned.get(record["value"], record["value"])


def _torn_batch(rng: Random, lines: Lines) -> None:
    gone = rng.choice(_untold(lines, _batch(rng, lines)))
    for line in lines:
        if "records" in line:
            line["records"] = [r for r in line["records"] if r["value"] != gone]


def _skipped_by_all(rng: Random, lines: Lines) -> None:
    """Nobody acknowledged it, and no poll returns anything there."""
    gone = set(_untold(lines, _answered(rng, lines, "send")))
    for line in lines:
        if "records" in line:
            line["records"] = [r for r in line["records"] if r["value"] not in gone]


def _higher_end(rng: Random, lines: Lines) -> None:
    _answered(rng, lines, "list_offsets")["offset"] += rng.randint(1, 9)


def _odd_epoch(rng: Random, lines: Lines) -> None:
    """One record of a poll is of another leader epoch than it was written in."""
    record = rng.choice(_answered(rng, lines, "poll")["records"])
    record["epoch"] = max(0, record["epoch"] + rng.choice((-1, 1)))


def _shown_by_followers(rng: Random, lines: Lines) -> None:
    """Under load followers alone are read from; and then an end is told that may be below what they showed."""
    for line in lines:
        if line.get("reader") == "wire" and line["phase"] == "main":
            line["reader"] = "follower"
    _lower_end(rng, lines)


DAMAGE: tuple[Callable[[Random, Lines], None], ...] = (
    _drop_record,
    _foreign_value,
    _broken_record,
    _shifted_offset,
    _swapped_records,
    _lower_hw,
    _failed_send,
    _short_answer,
    _moved_poll,
    _unread_value,
    _beyond_the_end,
    _client_jumps,
    _refused_poll,
    _lower_end,
    _reversed_batch,
    _torn_batch,
    _skipped_by_all,
    _higher_end,
    _odd_epoch,
    _shown_by_followers,
)


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for seed in range(VALID_LIVES):
        cases[f"valid{seed}"] = case_of(random_life(Random(seed), f"valid{seed}", first_broker=10 * seed + 1))
    for seed in range(DAMAGED):
        rng = Random(1000 + seed)
        life = random_life(rng, f"damaged{seed}", steps=30)
        lines = copy.deepcopy(life.story.lines)
        DAMAGE[seed % len(DAMAGE)](rng, lines)
        if seed % 3 == 2:
            rng.choice(DAMAGE)(rng, lines)
        cases[f"damaged{seed}"] = Case(lines)
    return cases


CASES = _cases()


@pytest.mark.parametrize("topic", [topic for topic in CASES if topic.startswith("valid")])
def test_a_model_s_life_is_valid_in_every_respect(judged: Judged, topic: str) -> None:
    results = judged[topic]
    assert not invalid(results), {name: results[name].reasons for name in invalid(results)}
    unknown = {name: result.reasons for name, result in results.items() if result.verdict == "unknown"}
    # The model's only consumer with a position of its own reads the drain, and none of its producers has an id.
    without = [*PRODUCERS, *(spec for spec in ALL if "own_positions" in spec.needs)]
    assert unknown.keys() == {spec.name for spec in without}, unknown


@pytest.mark.parametrize("topic", CASES)
def test_every_checker_finds_what_its_twin_finds(judged: Judged, topic: str) -> None:
    ops = operations(CASES[topic].history)
    twins = {name for name, twin in TWINS.items() if twin(ops)}
    assert invalid(judged[topic]) & set(TWINS) == twins


def test_damage_shows_every_anomaly_somewhere() -> None:
    seen: set[str] = set()
    for case in CASES.values():
        ops = operations(case.history)
        seen |= {name for name, twin in TWINS.items() if twin(ops)}
    # An oracle that never says anything would agree with anything.
    assert seen >= set(TWINS), set(TWINS) - seen
