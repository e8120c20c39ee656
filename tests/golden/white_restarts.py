"""Changes of a run in the end of a log that a restarted broker opens: what it had written above its watermark."""

from __future__ import annotations

from typing import Any

from tests.golden.white_logs import end_forgotten
from tests.golden.white_parts import last_event, put_after
from tests.support.judging import Case
from tests.support.known_faults import said_of


def _last_batch(case: Case, above: int, *after: dict[str, Any]) -> dict[str, Any]:
    """A leader's last batch, which nobody fetched before it was killed; then it opens a log that ends `above` the
    watermark. after: the last lines of that life. Returns the line of the open log.
    """
    opened = last_event(case, e="recovered")
    mine = [e for e in case.tables["events"] if e["b"] == opened["b"] and e["i"] != opened["i"]]
    end = max(e["last"] + 1 for e in mine if e["e"] == "append")
    assert end == max(e["hw"] for e in mine if "hw" in e)
    about = {"p": opened["p"], "le": 0}
    batch = {**about, "e": "append", "role": "leader", "base": end, "last": end}
    opened.update(leo=end + above)
    role = last_event(case, e="become_follower", i=opened["i"])
    role.update(leo=end + above)
    if above:
        cut = {"e": "truncate", "p": opened["p"], "le": role["le"], "from_leo": end + above, "to": end}
        put_after(case, role, {**cut, "hw": role["hw"], "in_isr": False, "reason": "diverging-epoch"})
    put_after(case, mine[-1], batch, *({**about, **line} for line in after))
    return opened


def _role(case: Case) -> dict[str, Any]:
    """The role of a follower that a deposed leader takes; its log is as it was."""
    leads = last_event(case, e="become_leader", le=0)
    role = {"e": "become_follower", "le": 1, "leader": next(b for b in leads["replicas"] if b != leads["b"])}
    later = last_event(case, e="become_follower", le=1)
    return {**role, "leo": 0, "hw": 0, **{name: later[name] for name in ("pe", "ce", "isr", "replicas", "leader")}}


def last_batch_lost(case: Case) -> None:
    _last_batch(case, 0)


def last_batch_kept(case: Case) -> None:
    _last_batch(case, 1)


def last_batch_cut(case: Case) -> None:
    """It had been cut, when the next leader said that it diverges."""
    role = _role(case)
    end = last_event(case, e="recovered")["hw"]
    cut = {"e": "truncate", "le": 1, "from_leo": end + 1, "to": end, "hw": end, "in_isr": False}
    _last_batch(case, 0, {**role, "leo": end + 1, "hw": end}, {**cut, "reason": "diverging-epoch"})


def last_batch_in_doubt(case: Case) -> None:
    """It had begun to follow the next leader, whose log it may have found to be another one."""
    end = last_event(case, e="recovered")["hw"]
    _last_batch(case, 0, {**_role(case), "leo": end + 1, "hw": end})


def last_batch_of_a_follower_lost(case: Case) -> None:
    """It had begun to follow the next leader, and appended what that one had."""
    end = last_event(case, e="recovered")["hw"]
    more = {"e": "append", "role": "follower", "le": 1, "base": end + 1, "last": end + 1}
    _last_batch(case, 0, {**_role(case), "leo": end + 1, "hw": end}, more)


def _asked(case: Case, role: dict[str, Any], *parts: Any, named: int = 2) -> list[dict[str, Any]]:
    """A fetch from the end of the log, and its answer. parts: the answer's, from its error on."""
    p, rid = last_event(case, e="recovered")["p"], "idle:1"
    sent = {"e": "fetch_sent", "rid": rid, "leader": role["leader"], "parts": [[p, role["leo"], named, 0]]}
    return [sent, {"e": "fetch_answered", "rid": rid, "leader": role["leader"], "parts": [[p, *parts]]}]


def _idle(case: Case, *parts: Any, first: bool = False) -> None:
    """It had begun to follow the next leader, had nothing to append, and got that answer. first: to a fetch before."""
    end = last_event(case, e="recovered")["hw"]
    role = {**_role(case), "leo": end + 1, "hw": end}
    sent, answered = _asked(case, role, *parts)
    _last_batch(case, 0, *([sent, role] if first else [role, sent]), answered)


def end_of_an_idle_follower_lost(case: Case) -> None:
    _idle(case, 0, 0, 0, -1, -1)


def end_of_an_idle_follower_cut_by_its_leader(case: Case) -> None:
    """Its leader says that the log diverges; there is no line of the cut."""
    _idle(case, 0, 0, 0, 0, last_event(case, e="recovered")["hw"])


def end_agreed_to_in_an_older_role(case: Case) -> None:
    """The answer is to a fetch of the role before."""
    _idle(case, 0, 0, 0, -1, -1, first=True)


def watermark_forgotten_in_two_lives(case: Case) -> None:
    """It opens the log twice: first whole, with a watermark of long ago, and no leader tells it more; then shorter."""
    opened = last_event(case, e="recovered")
    end = opened["leo"]
    end_forgotten(case)
    start = next(e for e in case.tables["events"] if e["i"] == opened["i"])
    between = [{**line, "i": f"{line['i']}x0"} for line in case.tables["events"] if line["i"] == opened["i"]]
    kept = between[: next(nth for nth, line in enumerate(between) if line["e"] == "recovered") + 1]
    kept = [{**line, "t_ns": line["t_ns"] - 1} for line in kept if line["e"] != "registered"]
    kept[-1].update(leo=end, hw=0)
    kept.append({**kept[-1], **_role(case), "leo": end, "hw": 0})
    for nth, line in enumerate(kept):
        line["s"] = nth
    at = case.tables["events"].index(start)
    case.tables["events"][at:at] = kept


def last_batch_cut_to_the_watermark(case: Case) -> None:
    """Its logs are cut to the watermark with the role of a follower, which may have no line yet."""
    opened = _last_batch(case, 0)
    for line in case.tables["events"]:
        if line["e"] == "start" and line["b"] == opened["b"]:
            line["truncation"] = "high-watermark"


def _hit(case: Case, opened: dict[str, Any], **said: Any) -> None:
    """A fault at the node of that broker."""
    kill = next(line for line in case.history if line.get("fault") == "kill" and line["f"] == "start")
    fault = {"fault_id": 999, "targets": [opened["node"]], **said}
    case.history.append({**kill, **fault, "index": len(case.history)})


def last_batch_damaged(case: Case) -> None:
    """A fault had cut a file of that log."""
    opened = _last_batch(case, 0)
    file = f"{opened['p']}/00000000000000000000.log"
    _hit(case, opened, fault="truncate-file", file=file, **said_of("truncate-file"))


def last_batch_lost_beside_damage(case: Case) -> None:
    """A fault had cut a file of another log of that node."""
    opened = _last_batch(case, 0)
    file = "another-0/00000000000000000000.log"
    _hit(case, opened, fault="truncate-file", file=file, **said_of("truncate-file"))


def last_batch_lost_with_the_power(case: Case) -> None:
    """It was not synced."""
    opened = _last_batch(case, 0)
    _hit(case, opened, fault="power-failure", **said_of("power-failure"))


def synced_batch_lost_with_the_power(case: Case) -> None:
    """It was synced."""
    opened = _last_batch(case, 0, {"e": "flush", "upto": last_event(case, e="recovered")["hw"] + 1})
    _hit(case, opened, fault="power-failure", **said_of("power-failure"))


def watermark_lost_with_the_power(case: Case) -> None:
    """What was committed is gone as well."""
    end_forgotten(case)
    _hit(case, last_event(case, e="recovered"), fault="power-failure", **said_of("power-failure"))


def last_batch_lost_by_an_unheard_of_fault(case: Case) -> None:
    """A fault whose effect no checker knows."""
    opened = _last_batch(case, 0)
    _hit(case, opened, fault="flood", family="weather", effects=["wets-disks"])


def _opened_once_more(case: Case, *before: dict[str, Any]) -> None:
    """A follower opens its log a second time in one life, shorter by its last batch, and fetches that again.

    before: lines that say why.
    """
    role = last_event(case, e="become_follower")
    end, p = role["leo"], {"p": role["p"]}
    written = [e for e in case.tables["events"] if e["i"] == role["i"] and e["e"] == "append" and e["last"] < end][-1]
    short = {"leo": end - 1, "hw": min(role["hw"], end - 1)}
    opened = {**p, "e": "recovered", "log_start": 0, "clean": False, **short}
    batch = {**p, "e": "append", "le": written["le"], "role": "follower", "base": end - 1, "last": end - 1}
    put_after(case, role, *({**p, **line} for line in before), opened, {**role, **short}, batch)


def end_gone_in_one_life(case: Case) -> None:
    _opened_once_more(case)


def end_deleted_in_one_life(case: Case) -> None:
    """It was told to delete the partition."""
    _opened_once_more(case, {"e": "stop_replica", "delete": True})
