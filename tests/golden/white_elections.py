"""Changes of a run in who leads, under which epoch, and who is in the ISR."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from tests.golden.white_parts import last_event, put_after, rewrite, state_rows
from tests.support.judging import Case


def isr_without_leader(case: Case) -> None:
    row = state_rows(case)[-1]
    leader = json.loads(row["data"])["leader"]
    rewrite(row, isr=[b for b in json.loads(row["data"])["isr"] if b != leader])


def _outsider(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state in which somebody leads who was not in the ISR before, and the one before it."""
    states = state_rows(case)
    for before, row in pairwise(states):
        if json.loads(row["data"])["leader"] not in json.loads(before["data"])["isr"]:
            return row, before
    raise AssertionError("nobody was elected from outside the ISR")


def _make_eligible(case: Case, leader_epoch: int | None = None) -> None:
    """The outsider is eligible by the state before. leader_epoch: of which epoch that says it is, if not its own."""
    row, before = _outsider(case)
    was = json.loads(before["data"])
    epoch = was["leader_epoch"] if leader_epoch is None else leader_epoch
    elr = {"replicas": [json.loads(row["data"])["leader"]], "isr": was["isr"], "leader_epoch": epoch}
    rewrite(before, elr=elr)


def eligible_leader(case: Case) -> None:
    _make_eligible(case)


def ineligible_leader(_: Case) -> None:
    """Nothing is said of eligible replicas."""


def leader_of_an_old_eligibility(case: Case) -> None:
    """A tool rewrote the state and kept the field."""
    _make_eligible(case, 7)


def longest_log(case: Case) -> None:
    """Nobody surely had all that was committed, says the controller."""
    epoch = json.loads(_outsider(case)[0]["data"])["leader_epoch"]
    last_event(case, e="election", le=epoch)["reason"] = "longest-log"


def grown_by_an_election(case: Case) -> None:
    """The eligible leader takes a broker along that was not in the ISR."""
    _make_eligible(case)
    row, before = _outsider(case)
    leader, was = json.loads(row["data"])["leader"], json.loads(before["data"])["isr"]
    replicas = last_event(case, e="become_leader", b=leader)["replicas"]
    isr = [leader, next(b for b in replicas if b not in (leader, *was))]
    _elect(case, row, isr)


def _elect(case: Case, row: dict[str, Any], isr: list[int]) -> None:
    """Another ISR for an election, in ZooKeeper and in what brokers acted by."""
    rewrite(row, isr=isr)
    for event in case.tables["events"]:
        if event["e"] in ("election", "become_leader", "become_follower") and event["pe"] == row["version"]:
            event["isr"] = isr


def two_leaders(case: Case) -> None:
    taken = last_event(case, e="become_leader")
    other = next(b for b in taken["replicas"] if b != taken["b"])
    line = last_event(case, e="become_follower", b=other)
    line.update(e="become_leader", le=taken["le"], epoch_start=line["leo"])


def controller_back(case: Case) -> None:
    rewrite(state_rows(case)[-1], controller_epoch=0)


def dead_joiner(case: Case) -> None:
    """A broker that deregistered long before is let in."""
    last = state_rows(case)[-1]
    joiner = next(iter(set(json.loads(last["data"])["isr"]) - {json.loads(last["data"])["leader"]}))
    entry = next(
        row
        for before, row in zip(state_rows(case), state_rows(case)[1:], strict=False)
        if len(json.loads(row["data"])["isr"]) > len(json.loads(before["data"])["isr"])
    )
    gone = dict(entry, op="delete", version=None, data=None)
    isr, was = (
        set(json.loads(row["data"])["isr"]) for row in (entry, state_rows(case)[state_rows(case).index(entry) - 1])
    )
    joiner = next(iter(isr - was))
    gone["path"] = f"/brokers/ids/{joiner}"
    gone["position"] = 0
    gone["time_ms"] = entry["time_ms"] - 10_000
    # Between the version before and the entry.
    gone["zxid"] = entry["zxid"]
    for row in case.tables["znodes"]:
        if row["zxid"] >= entry["zxid"]:
            row["zxid"] += 1
    case.tables["znodes"].append(gone)


def _dead_elected(case: Case, ms: int) -> None:
    """Who is elected had not been registered for so long."""
    row = next(
        row
        for before, row in pairwise(state_rows(case))
        if json.loads(row["data"])["leader"] != json.loads(before["data"])["leader"]
    )
    gone = dict(row, op="delete", version=None, data=None, position=0, time_ms=row["time_ms"] - ms)
    gone["path"] = f"/brokers/ids/{json.loads(row['data'])['leader']}"
    for other in case.tables["znodes"]:
        if other["zxid"] >= gone["zxid"]:
            other["zxid"] += 1
    case.tables["znodes"].append(gone)


def long_dead_elected(case: Case) -> None:
    _dead_elected(case, 10_000)


def elected_just_after_its_end(case: Case) -> None:
    """Its controller had not heard yet."""
    _dead_elected(case, 5_000)


def unproposed(case: Case) -> None:
    """An ISR grows, and the event log of its leader, which goes on, tells of no proposal."""
    line = next(e for e in case.tables["events"] if e["e"] == "isr_propose" and e["kind"] == "expand")
    line.update(e="flush", upto=0)


def _first_role_again(case: Case, *between: str) -> None:
    """A broker that was never restarted takes its first role once more; `between`: events that come before that."""
    last = last_event(case, e="become_follower")
    first = next(e for e in case.tables["events"] if e["i"] == last["i"] and e["e"] == "become_follower")
    assert first["le"] < last["le"]
    now = {"p": last["p"], "leo": last["leo"], "hw": last["hw"]}
    put_after(case, last, *({"e": e, "log_start": 0, "clean": True, **now} for e in between), {**first, **now})


def role_of_an_old_epoch(case: Case) -> None:
    _first_role_again(case)


def log_opened_anew(case: Case) -> None:
    _first_role_again(case, "recovered")


def _obeys(case: Case, *epochs: int, restarted: bool = False) -> None:
    """A broker carries out requests of controllers; restarted: the last of them in its next life.

    epochs: counted from that of the run.
    """
    opened = last_event(case, e="recovered")
    first = next(e for e in case.tables["events"] if e["b"] == opened["b"] and e["e"] == "registered")
    again = last_event(case, e="registered", b=opened["b"])
    run = last_event(case, e="controller")["ce"]
    told = [{"e": "obeyed", "ce": run + epoch} for epoch in epochs]
    if restarted:
        put_after(case, again, told.pop())
    put_after(case, first, *told)


def obeys_a_newer_controller(case: Case) -> None:
    _obeys(case, 0, 1, 1, restarted=True)


def obeys_an_older_controller(case: Case) -> None:
    _obeys(case, 0, 1, 0)


def obeys_an_older_controller_once_restarted(case: Case) -> None:
    _obeys(case, 0, 1, 0, restarted=True)
