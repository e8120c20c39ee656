"""A life with an unclean election, and the damage to it that such an election excuses or does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.support.judging import Case, case_of
from tests.support.model_cluster import ModelCluster


def unclean_life(topic: str, first_broker: int, lost: int = 2) -> ModelCluster:
    """A broker from outside the ISR is elected in the middle, and what only the others had is gone. lost: records."""
    model = ModelCluster(Random(7), topic, first_broker=first_broker, min_isr=1)
    first, second, third = model.brokers
    (p,) = model.partitions
    for _ in range(3):
        model.send()
    model.kill(third)
    for _ in range(lost):
        model.send()
    model.poll(0, process=50_000)
    model.kill(second)
    model.kill(first)
    # `third` comes back alone, and its log ends where it died.
    p.isr = [third]
    model.start(third, 1)
    model.poll(0, process=50_000)
    model.send()
    model.poll(0, process=50_000)
    return model


def finished(model: ModelCluster) -> Case:
    """The others return, and later one of them is elected as it should be."""
    first, second, third = model.brokers
    model.start(first, 3)
    model.start(second, 2)
    # Nobody has led under an epoch from before the unclean election for long.
    model.story.now += 3_000
    for _ in range(4):
        model.send()
    model.poll(0, process=50_000)
    model.kill(third)
    model.send()
    model.start(third, 4)
    model.finish()
    return case_of(model)


def _as_it_went(_: Case) -> None:
    pass


def _bytes_differ(case: Case) -> None:
    case.tables["batches"][0]["digest"] = "other"


def _isr_empty(case: Case) -> None:
    row = [row for row in case.tables["znodes"] if row["path"].endswith("/state")][-1]
    row["data"] = json.dumps({**json.loads(row["data"]), "isr": []})


def _lost_before(case: Case) -> None:
    """A record vanished between two polls that were both over before any broker died."""
    polls = [line for line in case.history if line["f"] == "poll" and line["type"] == "ok"]
    early = copy.deepcopy([line for line in case.history[: polls[0]["index"] + 1] if line["f"] == "poll"])
    sent = next(line for line in case.history if line["f"] == "send" and line["type"] == "ok")
    at_ns = sent["time_ns"]
    value = case.history[sent["invoke"]]["values"][0]
    for nth, records in enumerate(([{"offset": 0, "value": value, "epoch": 0, "intact": True}], [])):
        index = len(case.history)
        asked, answer = copy.deepcopy(early[-2]), copy.deepcopy(early[-1])
        asked |= {"index": index, "time_ns": at_ns + 10 + 10 * nth, "process": 60_000 + nth, "consumer": f"e{nth}"}
        answer |= {"index": index + 1, "invoke": index, "time_ns": at_ns + 15 + 10 * nth, "process": 60_000 + nth}
        answer |= {"records": records, "next_position": 1, "hw": 1, "lso": 1}
        case.history += [asked, answer]


LATER = 5
"""An offset that only records written since the election have."""


def _never_read_later(case: Case) -> None:
    """A record of the new leader's is acknowledged, and every poll passes over it."""
    _not_returned(case, lambda line: True)


def _read_and_gone_later(case: Case) -> None:
    """A record of the new leader's is read, and gone at the drain."""
    _not_returned(case, lambda line: line["phase"].startswith("drain"))


def _not_returned(case: Case, by: Callable[[dict[str, Any]], bool]) -> None:
    for line in case.history:
        if line["f"] == "poll" and line["type"] == "ok" and by(line):
            line["records"] = [record for record in line["records"] if record["offset"] != LATER]


def _short_leader_later(case: Case) -> None:
    """A later leader, from the ISR, lacks a record that the one before it had exposed, and that its own lines had."""
    taken = [event for event in case.tables["events"] if event["e"] == "become_leader"]
    assert taken[-1]["le"] > taken[-2]["le"] > 0
    taken[-1].update(leo=LATER, hw=LATER, epoch_start=LATER)


def _member_short_later(case: Case) -> None:
    """A member of the ISR lacks what was acknowledged last, and its own log and checkpoint know of no more."""
    node = case.tables["batches"][-1]["node"]
    last = [row for row in case.tables["batches"] if row["node"] == node][-1]
    case.tables["batches"].remove(last)
    for row in case.tables["checkpoints"]:
        if row["node"] == node and row["kind"] == "high-watermark":
            row["offset"] = last["base"]


def _forgotten_unheard(case: Case) -> None:
    """A broker lost what it knew to be committed before it could hear of the new leader: no leader told it to cut. Its
    next role goes on where it was before.
    """
    opened = next(event for event in case.tables["events"] if event["e"] == "recovered")
    mine = [event for event in case.tables["events"] if event["b"] == opened["b"] and event["i"] != opened["i"]]
    known = max(event["hw"] for event in mine if "hw" in event)
    opened.update(leo=known - 1, hw=known - 1)


def _sent_back_later(case: Case) -> None:
    """The new leader gives a record an offset below one that it had given before."""
    sends = [line for line in case.history if line["f"] == "send" and line["type"] == "ok"]
    one, other = [line for line in sends if line["base_offset"] in (LATER, LATER + 1)][-2:]
    assert (one["base_offset"], other["base_offset"]) == (LATER, LATER + 1)
    one["base_offset"], other["base_offset"] = LATER + 1, LATER
    values = {LATER: case.history[other["invoke"]]["values"][0], LATER + 1: case.history[one["invoke"]]["values"][0]}
    for line in case.history:
        for record in line.get("records", ()):
            record["value"] = values.get(record["offset"], record["value"])


UNCLEAN: dict[str, tuple[Callable[[Case], None], set[str]]] = {
    "as-it-went": (_as_it_went, set()),
    "bytes-differ": (_bytes_differ, {"log-matching"}),
    "isr-empty": (_isr_empty, {"isr-znode", "hw-within-isr"}),
    "lost-before": (_lost_before, {"vanished-read", "hole"}),
    "lost-later": (_never_read_later, {"lost-write", "hole"}),
    "gone-later": (_read_and_gone_later, {"vanished-read", "hole"}),
    "short-leader-later": (_short_leader_later, {"leader-completeness", "offset-order"}),
    # More had been exposed before the unclean election than since.
    "short-leader-hidden": (_short_leader_later, {"leader-completeness", "offset-order"}),
    "short-member-later": (_member_short_later, {"log-matching"}),
    "sent-back-later": (_sent_back_later, {"real-time-order"}),
    "forgotten-unheard": (_forgotten_unheard, {"truncation", "offset-order"}),
}
