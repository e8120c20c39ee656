"""Changes of a run in what leaders counted, acknowledged and showed."""

from __future__ import annotations

from typing import Any

from tests.golden.white_parts import last_event, put_after
from tests.support.judging import Case


def hw_above_leo(case: Case) -> None:
    line = last_event(case, e="recovered")
    line["hw"] = line["leo"] + 1


def role_of_a_shorter_log(case: Case) -> None:
    """No line cuts it."""
    line = last_event(case, e="become_follower")
    line["leo"] -= 1
    line["hw"] = min(line["hw"], line["leo"])


def role_with_a_lower_watermark(case: Case) -> None:
    last_event(case, e="become_follower")["hw"] -= 1


def role_of_a_longer_log(case: Case) -> None:
    """Who is to lead says that it has what no line of it has."""
    last_event(case, e="become_leader")["leo"] += 1


def appended_over_its_end(case: Case) -> None:
    """A leader writes what its log ends with once more."""
    last_event(case, e="append", role="leader")["base"] -= 1


def hw_on_append(case: Case) -> None:
    """The leader counted a follower that had not asked that far."""
    line = last_event(case, e="hw", role="leader")
    behind = next(b for b in line["leos"] if int(b) != line["b"])
    line["leos"][behind] = line["hw"] - 1


def hw_back(case: Case) -> None:
    lines = [e for e in case.tables["events"] if e["e"] == "hw" and e["role"] == "leader"]
    last = lines[-1]
    last["hw"] = next(e["hw"] for e in reversed(lines[:-1]) if e["le"] == last["le"]) - 1
    case.tables["events"] = [e for e in case.tables["events"] if e["s"] <= last["s"] or e["b"] != last["b"]]


def early_ack(case: Case) -> None:
    line = last_event(case, e="ack")
    line["hw"] = line["last"]


def early_ack_called_another(case: Case) -> None:
    """It says of itself that it answered acks=1, of which the high watermark is no matter."""
    early_ack(case)
    last_event(case, e="ack")["acks"] = 1


def ack_called_another(case: Case) -> None:
    """Nothing else is wrong with it."""
    last_event(case, e="ack")["acks"] = 1


def ack_of_a_part(case: Case) -> None:
    """It leaves out the end of what it answers for: below that is the watermark."""
    last_event(case, e="ack")["last"] -= 1


def _taken(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the last watermark that a follower took, the answer that it took it from)."""
    line = last_event(case, e="hw", role="follower")
    return line, next(e for e in case.tables["events"] if e["e"] == "fetch_answered" and e["rid"] == line["rid"])


def took_more_than_it_was_told(case: Case) -> None:
    """Its leader's rose, but this answer does not say so."""
    line, answer = _taken(case)
    answer["parts"][0][2] = line["hw"] - 1


def took_what_no_answer_told(case: Case) -> None:
    line, _ = _taken(case)
    line["rid"] += "0"


def shown_above(case: Case) -> None:
    line = last_event(case, e="visible")
    line["upto"] = line["hw"] + 1


def refused_fetch_counted(case: Case) -> None:
    """All that a leader's last advance rests on of one follower is a fetch that it refused: the logs diverge."""
    hw = last_event(case, e="hw", role="leader")
    member = next(b for b in hw["isr"] if b != hw["b"])
    events = case.tables["events"]
    proving = {
        e["rid"]
        for e in events
        if e["e"] == "fetch_received" and e["follower"] == member and e["b"] == hw["b"] and e["parts"][0][1] >= hw["hw"]
    }
    answers = [e for e in events if e["e"] == "fetch_answered" and e["rid"] in proving]
    assert answers
    for answer in answers:
        answer["parts"][0][4:6] = [0, 1]


def end_told_too_high(case: Case) -> None:
    """An end offset beyond every watermark that the leader logged, told before its log was copied."""
    hw = last_event(case, e="hw", role="leader")
    topic, number = hw["p"].rsplit("-", 1)
    asked = {"type": "invoke", "process": 70_000, "kind": "client", "f": "list_offsets", "phase": "main"}
    asked |= {"topic": topic, "partition": int(number), "node": hw["node"]}
    index, at_ns = len(case.history), hw["m"]
    case.history += [
        {"index": index, "time_ns": at_ns, **asked, "timestamp": -1, "isolation": 0, "leader_epoch": hw["le"]},
        {
            "index": index + 1,
            "time_ns": at_ns + 1,
            **asked,
            "type": "ok",
            "invoke": index,
            "offset": hw["hw"] + 1,
            "leader_epoch_answered": hw["le"],
        },
    ]


def _empty_poll(case: Case, above: int) -> None:
    """An empty answer at the end of the log tells a watermark `above` the highest that the leader logged."""
    _poll_at(case, last_event(case, e="hw", role="leader"), above, "wire")


def _poll_at(case: Case, hw: dict[str, Any], above: int, reader: str) -> None:
    """An empty answer of the broker that logged the watermark `hw`, by then, tells one `above` that."""
    topic, number = hw["p"].rsplit("-", 1)
    asked = {"type": "invoke", "process": 70_000, "kind": "client", "f": "poll", "phase": "main"}
    asked |= {"topic": topic, "partition": int(number), "node": hw["node"]}
    index, at_ns, told = len(case.history), hw["m"], hw["hw"] + above
    how = {"position": hw["hw"], "leader_epoch": hw["le"], "isolation": 0, "reader": reader, "consumer": "e"}
    answer = {"next_position": hw["hw"], "hw": told, "lso": told, "log_start": 0, "records": []}
    case.history += [
        {"index": index, "time_ns": at_ns, **asked, **how},
        {"index": index + 1, "time_ns": at_ns + 1, **asked, "type": "ok", "invoke": index, **answer},
    ]


def _follower_reads(case: Case, by_line: int, by_answer: int) -> None:
    """A follower shows a consumer what is below its last watermark, and so much more, by its line and its answer."""
    hw = last_event(case, e="hw", role="follower")
    shown = hw["hw"] + by_line
    line = {"e": "visible", "p": hw["p"], "le": hw["le"], "kind": "follower-fetch", "upto": shown, "hw": shown}
    put_after(case, hw, line)
    _poll_at(case, hw, by_answer, "follower")


def follower_read(case: Case) -> None:
    _follower_reads(case, 0, 0)


def follower_read_above(case: Case) -> None:
    _follower_reads(case, 1, 0)


def follower_told_above(case: Case) -> None:
    _follower_reads(case, 0, 1)


def watermark_told_too_high(case: Case) -> None:
    _empty_poll(case, 1)


def watermark_told(case: Case) -> None:
    _empty_poll(case, 0)


def _asked_lower_again(case: Case, answered: bool) -> None:
    """Before its leader's last advance a follower asks for a record that it had; the leader counts it as before."""
    events = case.tables["events"]
    hw = last_event(case, e="hw", role="leader")
    before = [e for e in events[: events.index(hw)] if e["e"] == "fetch_received" and e["b"] == hw["b"]]
    # The last one makes the watermark rise; the other follower's is between the two.
    first = [e for e in before if e["follower"] != before[-1]["follower"]][-1]
    sent = next(e for e in events if e["e"] == "fetch_sent" and e["rid"] == first["rid"])
    taken = next(e for e in events if e["e"] == "fetch_answered" and e["rid"] == first["rid"])
    rid, (p, offset, *epochs) = f"{first['rid']}0", first["parts"][0]
    assert offset == hw["hw"]
    again = {"rid": rid, "parts": [[p, offset - 1, *epochs]]}
    put_after(case, first, {**first, **again})
    answer = {**taken, "rid": rid, "parts": [[p, 0, hw["hw"] - 1, 70, -1, -1]]}
    put_after(case, taken, {**sent, **again}, *([answer] if answered else []))


def lower_fetch_passed_over(case: Case) -> None:
    _asked_lower_again(case, answered=True)


def lower_fetch_never_answered(case: Case) -> None:
    """It may be one of a dead incarnation, that came late: the leader need not have believed it."""
    _asked_lower_again(case, answered=False)


def _first_fetch(case: Case) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All events, and the line of the first fetch that a follower sent and its leader took."""
    events = case.tables["events"]
    taken = {(e["rid"], e["b"]) for e in events if e["e"] == "fetch_received"}
    return events, next(e for e in events if e["e"] == "fetch_sent" and (e["rid"], e["leader"]) in taken)


def _drop(events: list[dict[str, Any]], line: dict[str, Any]) -> None:
    """Take one line out of its broker's log, without a hole."""
    events.remove(line)
    for later in events:
        if later["i"] == line["i"] and later["s"] > line["s"]:
            later["s"] -= 1


def fetch_never_sent(case: Case) -> None:
    """A leader took a fetch that its follower's log, which goes on, does not have."""
    _drop(*_first_fetch(case))


def taken_after_the_copy(case: Case) -> None:
    """A follower sent a fetch when its log had been copied; the leader's copy, made later, has it."""
    events = case.tables["events"]
    sent = last_event(case, e="fetch_sent")
    taken = last_event(case, e="fetch_received", rid=sent["rid"], b=sent["leader"])
    wrote = last_event(case, i=taken["i"])
    put_after(case, wrote, {**taken, "rid": f"{sent['i']}:999999"})
    late = events[events.index(wrote) + 1]
    after = max(e["t_ns"] for e in events) + 1 - late["t_ns"]
    late |= {"t_ns": late["t_ns"] + after, "m": late["m"] + after}
