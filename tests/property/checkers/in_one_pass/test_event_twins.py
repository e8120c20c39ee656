"""Rules on ends after restarts, on cuts, and on what watermarks rise by, against their plain twins: on lives of a model
and on arbitrary damage to their event logs, in one Spark pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from checkers.verdicts.verdict import CheckResult
from tests.support.event_twins import (
    Found,
    acted_by_another_isr,
    below_a_watermark_after_restart,
    cut_what_was_exposed,
    goes_on_elsewhere,
    raised_below_min_isr,
    raised_by_a_role,
    shorter_after_restart,
)
from tests.support.judging import Case, case_of
from tests.support.model_cluster import random_life

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

FIRST_BROKER = 1_001
SOUND = 8
DAMAGED = 64
MIN_ISR = 2
Lines = list[dict[str, Any]]
Judged = dict[str, dict[str, CheckResult]]
_STATE = re.compile(r"^/brokers/topics/(.+)/partitions/(\d+)/state$")
_PLACE = re.compile(r"event (\w+)/(\d+): ")


def _one(rng: Random, lines: Lines, *names: str) -> dict[str, Any] | None:
    able = [line for line in lines if line["e"] in names]
    return rng.choice(able) if able else None


def _shorter(rng: Random, lines: Lines) -> None:
    """A log is opened somewhat shorter, or longer."""
    if line := _one(rng, lines, "recovered"):
        line["leo"] = max(0, line["leo"] + rng.choice((-3, -2, -1, -1, 1)))
        line["hw"] = min(line["hw"], line["leo"])


def _later_end(rng: Random, lines: Lines) -> None:
    """The last batch of a life, which nobody else had; sometimes with a role behind it."""
    opened = _one(rng, lines, "recovered")
    if opened is None:
        return
    mine = [line for line in lines if line["b"] == opened["b"] and line["t_ns"] < opened["t_ns"]]
    before = [line for line in mine if line["i"] != opened["i"] and line.get("p") == opened["p"]]
    if not before:
        return
    last = [line for line in lines if line["i"] == before[-1]["i"]][-1]
    ends = [line["last"] + 1 for line in before if line["e"] == "append"]
    if not ends:
        return
    who = {name: last[name] for name in ("b", "i", "w", "m", "node", "t_ns")}
    more: Lines = [{"e": "append", "p": opened["p"], "le": 0, "role": "leader", "base": ends[-1], "last": ends[-1]}]
    role = next((line for line in lines if line["e"] == "become_follower" and line["p"] == opened["p"]), None)
    if role is not None and rng.random() < 0.4:
        more.append({**role, "leo": ends[-1] + 1})
    at = lines.index(last) + 1
    lines[at:at] = [{**line, **who, "s": last["s"] + nth} for nth, line in enumerate(more, 1)]


def _role_rises(rng: Random, lines: Lines) -> None:
    if line := _one(rng, lines, "become_leader", "become_follower"):
        line["hw"] = max(0, line["hw"] + rng.choice((-1, 1, 2)))


def _mark_falls(rng: Random, lines: Lines) -> None:
    """What was known just before a role."""
    if line := _one(rng, lines, "recovered", "hw"):
        line["hw"] = max(0, line["hw"] - rng.choice((1, 2)))


def _fewer(rng: Random, lines: Lines) -> None:
    """A leader's line names fewer members, so that they may be too few."""
    able = [line for line in lines if line["e"] in ("hw", "ack") and line.get("isr")]
    if able:
        line = rng.choice(able)
        line["isr"] = [line["b"]] if rng.random() < 0.5 else line["isr"][:-1] or line["isr"]


def _other_version(rng: Random, lines: Lines) -> None:
    """A leader takes another version for committed."""
    if line := _one(rng, lines, "isr_commit", "become_leader"):
        line["pe"] = max(0, line["pe"] + rng.choice((-1, 1)))


def _cut(rng: Random, lines: Lines) -> None:
    """A replica cuts its log somewhere, whatever it is, as it may have nothing to do with what it holds."""
    line = _one(rng, lines, "append", "append", "become_follower", "become_leader", "recovered")
    if line is None:
        return
    end = line["last"] + 1 if line["e"] == "append" else line["leo"]
    marks = [other["hw"] for other in lines if other["i"] == line["i"] and other["s"] <= line["s"] and "hw" in other]
    to, hw = max(0, end - rng.choice((1, 1, 2, 3))), max(0, (marks or [0])[-1] - rng.choice((0, 0, 1, 2)))
    for later in lines:
        if later["i"] == line["i"] and later["s"] > line["s"]:
            later["s"] += 1
    cut = {"e": "truncate", "le": line.get("le", 0), "from_leo": end, "to": to, "hw": hw, "reason": "diverging-epoch"}
    who = {name: line[name] for name in ("b", "i", "w", "m", "node", "t_ns", "p")}
    lines.insert(lines.index(line) + 1, {**who, **cut, "s": line["s"] + 1, "in_isr": rng.random() < 0.3})


def _mark_of_long_ago(rng: Random, lines: Lines) -> None:
    """A log is opened with an old watermark, and that life ends at once, or as soon as it has a role."""
    opened = _one(rng, lines, "recovered")
    if opened is None or any(line["i"] in (f"{opened['i']}x0", opened["i"][:-2]) for line in lines):
        return
    life = [line for line in lines if line["i"] == opened["i"]]
    kept = life[: life.index(opened) + rng.choice((1, 2))]
    before = {"i": f"{opened['i']}x0"}
    at = lines.index(life[0])
    lines[at:at] = [
        {**line, **before, "t_ns": line["t_ns"] - 1, **({"hw": 0} if "hw" in line else {})} for line in kept
    ]
    opened["leo"] = max(0, opened["leo"] - rng.choice((0, 1, 2)))
    opened["hw"] = min(opened["hw"], opened["leo"])


DAMAGE: tuple[Callable[[Random, Lines], None], ...] = (
    _shorter,
    _later_end,
    _role_rises,
    _mark_falls,
    _fewer,
    _other_version,
    _cut,
    _mark_of_long_ago,
    _cut,
)


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for number in range(SOUND + DAMAGED):
        rng = Random(7000 + number)
        name = f"{'sound' if number < SOUND else 'bent'}{number}"
        case = case_of(random_life(rng, name, steps=30, first_broker=10 * number + FIRST_BROKER))
        if number >= SOUND:
            for _ in range(rng.choice((1, 2, 3))):
                DAMAGE[(number + rng.randrange(2)) % len(DAMAGE)](rng, case.tables["events"])
        cases[name] = case
    return cases


CASES = _cases()


def _isrs(case: Case) -> dict[tuple[str, int], set[int]]:
    found: dict[tuple[str, int], set[int]] = {}
    for row in case.tables["znodes"]:
        place = _STATE.match(row["path"])
        if place is not None and row["data"]:
            found[f"{place[1]}-{place[2]}", row["version"]] = set(json.loads(row["data"])["isr"])
    return found


def _said(results: dict[str, CheckResult], checker: str, *words: str) -> Found:
    """Lines of event logs that witnesses of this checker name, with one of these words."""
    told = [row.detail for row in results[checker].witnesses if row.kind == "invalid"]
    places = [_PLACE.search(detail) for detail in told if any(word in detail for word in words)]
    return {(place[1], int(place[2])) for place in places if place is not None}


TWINS: dict[str, tuple[Callable[[Case], Found], str, tuple[str, ...]]] = {
    "end": (lambda case: shorter_after_restart(case.tables["events"]), "truncation", ("had written everything",)),
    "watermark": (
        lambda case: below_a_watermark_after_restart(case.tables["events"]),
        "truncation",
        ("before it had taken high watermark",),
    ),
    "cut": (lambda case: cut_what_was_exposed(case.tables["events"]), "truncation", ("cut its log from",)),
    "log end": (lambda case: goes_on_elsewhere(case.tables["events"]), "offset-order", ("with a log that ends at",)),
    "role": (lambda case: raised_by_a_role(case.tables["events"]), "hw-within-isr", ("it was",)),
    "min-isr": (
        lambda case: raised_below_min_isr(case.tables["events"], _isrs(case), MIN_ISR),
        "hw-within-isr",
        ("with min.insync.replicas",),
    ),
    "acted": (
        lambda case: acted_by_another_isr(case.tables["events"], _isrs(case)),
        "isr-znode",
        ("(hw) with leader", "(ack) with leader"),
    ),
}


@pytest.mark.parametrize("rule", TWINS)
@pytest.mark.parametrize("topic", CASES)
def test_rule_finds_the_lines_that_its_twin_finds(judged: Judged, topic: str, rule: str) -> None:
    twin, checker, words = TWINS[rule]
    expected = twin(CASES[topic])
    found = _said(judged[topic], checker, *words)
    # Of many lines ten are shown.
    assert found == expected or (found < expected and len(judged[topic][checker].witnesses) == 10), (found, expected)
    assert not topic.startswith("sound") or not found


@pytest.mark.parametrize("rule", TWINS)
def test_damage_shows_to_every_twin_somewhere(rule: str) -> None:
    twin = TWINS[rule][0]
    # An oracle that never says anything would agree with anything.
    assert sum(bool(twin(case)) for case in CASES.values()) >= 3
    assert not any(twin(case) for name, case in CASES.items() if name.startswith("sound"))
