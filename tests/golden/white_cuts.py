"""Changes of a run in where a replica cuts its log: records that an epoch had exposed, and such that none had."""

from __future__ import annotations

from typing import Any

from tests.golden.white_parts import last_event, put_after
from tests.support.judging import Case
from tests.support.known_faults import said_of


def _cut(case: Case, line: dict[str, Any], below: int, **more: Any) -> None:
    """The last line of that replica's life is a cut, to `below` the end that its epoch had exposed; its own watermark
    had not come so far, and it does not know that it is in the ISR.
    """
    mine = [e for e in case.tables["events"] if e["i"] == line["i"]]
    end = max(e["last"] + 1 for e in mine if e["e"] == "append")
    cut = {"e": "truncate", "p": line["p"], "le": line["le"], "from_leo": end, "to": end - below, "hw": end - below}
    put_after(case, mine[-1], {**cut, "in_isr": False, "reason": "high-watermark", **more})


def _follower(case: Case) -> dict[str, Any]:
    return last_event(case, e="append", role="follower")


def cut_what_its_epoch_exposed(case: Case) -> None:
    _cut(case, _follower(case), 1)


def cut_what_nobody_exposed(case: Case) -> None:
    """The last batch was appended, and never committed."""
    line = _follower(case)
    last = [e for e in case.tables["events"] if e["i"] == line["i"]][-1]
    batch = {name: line[name] for name in ("p", "le", "role")}
    put_after(case, last, {**batch, "e": "append", "base": line["last"] + 1, "last": line["last"] + 1})
    _cut(case, line, 1)


def cut_by_a_leader(case: Case) -> None:
    """What it had appended itself."""
    _cut(case, last_event(case, e="append", role="leader"), 1)


def cut_below_a_watermark_of_another_epoch(case: Case) -> None:
    """It appended what is cut in an epoch that exposed nothing, and learned later that it is committed."""
    line = _follower(case)
    for event in case.tables["events"]:
        if event["i"] == line["i"] and event["e"] == "append" and event["last"] == line["last"]:
            event["le"] = 0
    taught = last_event(case, e="hw", i=line["i"])
    _cut(case, line, 1, hw=taught["hw"], reason="diverging-epoch")


def cut_by_the_old_protocol(case: Case) -> None:
    """Whose logs may be others than their leaders'."""
    cut_what_its_epoch_exposed(case)
    for line in case.tables["events"]:
        if line["e"] == "start" and line["b"] == _follower(case)["b"]:
            line["truncation"] = "high-watermark"


def cut_where_a_fault_damaged_another_replica(case: Case) -> None:
    """What the leader reads of its own files may be wrong."""
    cut_what_its_epoch_exposed(case)
    leads = last_event(case, e="become_leader")
    kill = next(line for line in case.history if line.get("fault") == "kill" and line["f"] == "start")
    hit = {"fault": "bitflip", "fault_id": 999, "targets": [leads["node"]], "file": f"{leads['p']}/0.log"}
    case.history.append({**kill, **hit, **said_of("bitflip"), "index": len(case.history)})


def cut_in_a_topic_made_anew(case: Case) -> None:
    """Offsets and epochs began again: which life of the topic exposed them is not known."""
    cut_what_its_epoch_exposed(case)
    znodes = case.tables["znodes"]
    first = next(row for row in znodes if row["path"].endswith("/state"))
    at = znodes.index(first)
    znodes[at:at] = [{**first, "position": -2}, {**first, "position": -1, "op": "delete", "data": None}]


def cut_before_anything_was_appended(case: Case) -> None:
    """A restarted broker, which had led, cuts the log that it opened before it has appended anything."""
    opened = last_event(case, e="recovered")
    role = last_event(case, e="become_follower", i=opened["i"])
    end = role["leo"]
    cut = {"e": "truncate", "from_leo": end, "to": end - 1, "hw": end - 1, "in_isr": False, "reason": "diverging-epoch"}
    opened["hw"] = role["hw"] = end - 1
    put_after(case, role, {**cut, "p": role["p"], "le": role["le"]})
