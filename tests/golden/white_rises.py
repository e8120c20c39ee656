"""Changes of a run in what a watermark rises by: a role, too small an ISR, or an ISR that nobody committed."""

from __future__ import annotations

import json
from typing import Any

from tests.golden.white_parts import last_event, put_after, state_rows
from tests.support.judging import Case


def raised_by_following(case: Case) -> None:
    """A broker that is back takes the follower's role with a watermark above the one that it found."""
    opened = last_event(case, e="recovered")
    role = next(e for e in case.tables["events"] if e["i"] == opened["i"] and e["e"] == "become_follower")
    opened["hw"] = role["hw"] - 1


def raised_by_leading(case: Case) -> None:
    """A new leader takes its log's end for committed."""
    role = last_event(case, e="become_leader")
    mine = [e for e in case.tables["events"] if e["i"] == role["i"] and e["s"] < role["s"] and e["e"] == "hw"]
    for line in mine:
        if line["hw"] == role["hw"]:
            line["hw"] -= 1
    assert mine


def raised_by_a_role_of_nothing_known(case: Case) -> None:
    """No line says what the watermark was before."""
    opened = last_event(case, e="recovered")
    opened.update(e="flush", upto=0)


def begun_anew_above(case: Case) -> None:
    """A replica whose leader's log begins above all that it has begins anew there, and is committed up to there."""
    line = last_event(case, e="hw", role="follower")
    last = [e for e in case.tables["events"] if e["i"] == line["i"]][-1]
    about = {"p": line["p"], "le": line["le"]}
    cut = {**about, "e": "truncate", "from_leo": line["hw"], "to": line["hw"] + 5, "hw": line["hw"], "in_isr": False}
    role = last_event(case, e="become_follower", i=line["i"])
    again = {name: role[name] for name in ("e", "pe", "ce", "leader", "isr", "replicas")}
    now = {**about, **again, "leo": line["hw"] + 5, "hw": line["hw"] + 5}
    put_after(case, last, {**cut, "reason": "out-of-range"}, now)


def _alone(case: Case, *, rises: bool, told: list[int] | None = None, known: bool = True) -> None:
    """In the end a leader is alone in the ISR, and takes one more record, with acks=1.

    rises: its watermark passes that record. told: the ISR that this line names. known: ZooKeeper's log has the version.
    """
    hw = last_event(case, e="hw", role="leader")
    last = [e for e in case.tables["events"] if e["i"] == hw["i"]][-1]
    row = state_rows(case)[-1]
    state = json.loads(row["data"])
    version = row["version"] + 1
    if known:
        zxid = max(other["zxid"] for other in case.tables["znodes"]) + 1
        now = {"op": "set", "version": version, "zxid": zxid, "data": json.dumps({**state, "isr": [hw["b"]]})}
        case.tables["znodes"].append({**row, **now})
    about = {"p": hw["p"], "le": hw["le"]}
    lines: list[dict[str, Any]] = [
        {**about, "e": "isr_commit", "pe": version, "isr": [hw["b"]]},
        {**about, "e": "append", "role": "leader", "base": hw["hw"], "last": hw["hw"]},
    ]
    if rises:
        isr = told or [hw["b"]]
        leos = {member: hw["hw"] + (int(member) == hw["b"]) for member in hw["leos"]}
        to = {"hw": hw["hw"] + 1, "isr": isr, "maximal": isr, "leos": leos}
        lines.append({**about, "e": "hw", "role": "leader", **to})
    put_after(case, last, *lines)


def raised_alone(case: Case) -> None:
    _alone(case, rises=True)


def stands_alone(case: Case) -> None:
    _alone(case, rises=False)


def _all_fetched(case: Case) -> None:
    """Every follower had fetched from behind the record: what the leader's line says of them is so."""
    hw = last_event(case, e="hw", role="leader")
    hw["leos"] = dict.fromkeys(hw["leos"], hw["hw"])
    last = last_event(case, e="fetch_received", b=hw["b"])
    for member in hw["leos"]:
        if int(member) != hw["b"]:
            sent = last_event(case, e="fetch_sent", b=int(member))
            part = [hw["p"], hw["hw"], hw["le"], hw["le"]]
            rid = f"{sent['rid']}0"
            put_after(case, last, {**last, "follower": int(member), "rid": rid, "parts": [part]})
            put_after(case, sent, {**sent, "rid": rid, "parts": [part]})
            grown = {"e": "append", "p": hw["p"], "le": hw["le"], "role": "follower", "base": hw["hw"] - 1}
            put_after(case, sent, {**grown, "last": hw["hw"] - 1})


def raised_by_an_old_isr(case: Case) -> None:
    """The line names the ISR of before, all of which has the record; ZooKeeper has the leader alone."""
    hw = last_event(case, e="hw", role="leader")
    _alone(case, rises=True, told=hw["isr"])
    _all_fetched(case)


def raised_by_an_isr_of_no_version(case: Case) -> None:
    """ZooKeeper's log lacks the version that the leader acted by; who else is in it, its own log says."""
    hw = last_event(case, e="hw", role="leader")
    _alone(case, rises=True, known=False, told=hw["isr"])
    last_event(case, e="isr_commit")["isr"] = hw["isr"]
    _all_fetched(case)


def rose_by_a_proposal(case: Case) -> None:
    """A leader takes the ISR without one follower for committed, which it has only proposed."""
    hw = last_event(case, e="hw", role="leader")
    gone = next(member for member in hw["isr"] if member != hw["b"])
    hw["isr"] = [member for member in hw["isr"] if member != gone]
    hw["maximal"] = list(hw["isr"])


def acknowledged_by_a_proposal(case: Case) -> None:
    """A leader answers by the ISR without one follower, which it has only proposed; two are enough."""
    ack = last_event(case, e="ack")
    gone = next(member for member in ack["isr"] if member != ack["b"])
    ack["isr"] = [member for member in ack["isr"] if member != gone]


def rose_past_a_member(case: Case) -> None:
    """A leader raises its watermark without one that is to leave the ISR, past what that one has."""
    hw = last_event(case, e="hw", role="leader")
    rose_by_a_proposal(case)
    gone = next(member for member in hw["leos"] if int(member) not in hw["isr"])
    hw["leos"][gone] = hw["hw"] - 1
