"""Runs that keep every rule, and how their event logs and znodes are changed."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.support.judging import Case
from tests.support.model_cluster import ModelCluster


def plain_life(topic: str, first_broker: int) -> ModelCluster:
    """Writes, a leader killed and back, a follower out for lag and back in."""
    model = ModelCluster(Random(5), topic, first_broker=first_broker)
    first, _, third = model.brokers
    for _ in range(3):
        model.send()
    model.poll(0, process=50_000)
    model.kill(first)
    model.send()
    model.start(first, 1)
    fault = model.pause(third)
    model.send()
    model.resume(third, fault)
    model.send()
    model.poll(3, process=50_000)
    model.finish()
    return model


def last_standing_life(topic: str, first_broker: int) -> ModelCluster:
    """The ISR shrinks to one broker, which dies. Another, that has all that is committed, returns and leads alone."""
    model = ModelCluster(Random(5), topic, first_broker=first_broker)
    first, second, third = model.brokers
    (p,) = model.partitions
    for _ in range(3):
        model.send()
    for broker in (third, second, first):
        model.kill(broker)
    p.isr = [second]
    for broker, fault in ((second, 2), (first, 3), (third, 1)):
        model.start(broker, fault)
    model.send()
    model.poll(0, process=50_000)
    model.finish()
    return model


def last_event(case: Case, **wanted: Any) -> dict[str, Any]:
    """The last event with these fields."""
    return [e for e in case.tables["events"] if all(e.get(k) == v for k, v in wanted.items())][-1]


def state_rows(case: Case) -> list[dict[str, Any]]:
    return [row for row in case.tables["znodes"] if row["path"].endswith("/state")]


def rewrite(row: dict[str, Any], **fields: Any) -> None:
    row["data"] = json.dumps({**json.loads(row["data"]), **fields})


def put_after(case: Case, line: dict[str, Any], *new: dict[str, Any]) -> None:
    """New lines in the event log of the broker that wrote `line`, right behind it."""
    for later in case.tables["events"]:
        if later["i"] == line["i"] and later["s"] > line["s"]:
            later["s"] += len(new)
    who = {name: line[name] for name in ("b", "i", "w", "m", "node", "t_ns")}
    at = case.tables["events"].index(line) + 1
    case.tables["events"][at:at] = [{**fields, **who, "s": line["s"] + nth} for nth, fields in enumerate(new, 1)]
