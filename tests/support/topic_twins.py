"""Slow, plain twins of the checkers of topics that are made anew, and small histories of one for both to judge.

Each twin takes the operations of one history. `history_of` tells what a name goes through: topics that are made, used,
told and deleted, some requests without an answer, and now and then an answer that no broker may give.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from tests.support.admin_twins import Ends, life_of
from tests.support.histories import Story
from tests.support.topic_stories import NODES, Remakers
from tests.support.twins import Op

MADE, ENDED, TOLD = "create_topic", "delete_topic", "describe_topic"


def _over(op: Op) -> int:
    assert op.done is not None
    return op.done


def _answers(ops: Sequence[Op]) -> list[Op]:
    return [op for op in ops if op.f in (MADE, TOLD) and op.outcome == "ok"]


def _id(op: Op) -> str | None:
    found = op.response.get("topic_id")
    return None if found is None else str(found)


def lives(ops: Sequence[Op]) -> list[str]:
    """Ids in the order in which they were told first."""
    order: list[str] = []
    for op in sorted(_answers(ops), key=lambda one: (_over(one), one.index)):
        found = _id(op)
        if found is not None and found not in order:
            order.append(found)
    return order


def _told_ns(ops: Sequence[Op], topic_id: str) -> int:
    return min(_over(op) for op in _answers(ops) if _id(op) == topic_id)


def _ended_ns(ops: Sequence[Op], topic_id: str) -> int | None:
    asked = [op.invoked for op in ops if op.f == ENDED and op.outcome != "fail" and op.request["topic_id"] == topic_id]
    return min(asked, default=None)


def _gone_ns(ops: Sequence[Op], topic_id: str) -> int | None:
    done = [_over(op) for op in ops if op.f == ENDED and op.outcome == "ok" and op.request["topic_id"] == topic_id]
    return min(done, default=None)


def named(ops: Sequence[Op]) -> list[str]:
    """Ids in the order in which lines named them first, in requests or in answers."""
    first: dict[str, int] = {}
    for op in ops:
        asked = [(op.request.get("topic_id"), op.invoked)]
        asked += [(_id(op), _over(op))] if op in _answers(ops) else []
        for found, at in asked:
            if found is not None:
                first[found] = min(at, first.get(found, at))
    return sorted(first, key=lambda one: first[one])


def _next_ns(ops: Sequence[Op], topic_id: str) -> int | None:
    """Since when the life after this one may have been there."""
    ended = _ended_ns(ops, topic_id)
    makings = [op for op in ops if op.f == MADE and op.outcome != "fail"]
    if ended is None:
        return None
    # One that was over by then made an earlier topic, or none.
    can = [op for op in makings if op.outcome == "info" or _over(op) > ended]
    return min((max(op.invoked, ended) for op in can), default=None)


def sends(ops: Sequence[Op]) -> set[tuple[int, str, str, int | None]]:
    """(value, life, outcome, offset) of each send, under every life that it may have gone to."""
    order, found = named(ops), set()
    for op in (op for op in ops if op.f == "send"):
        own, base = str(op.request["topic_id"]), op.response.get("base_offset")
        begins = _next_ns(ops, own)
        sure = op.outcome == "fail" or begins is None or (op.outcome == "ok" and _over(op) <= begins)
        may_be = [own]
        for before, after in pairwise(order[order.index(own) :]):
            begun = _next_ns(ops, before)
            if not sure and (op.outcome == "info" or (begun is not None and begun <= _over(op))):
                may_be.append(after)
        read = [one for one in may_be if any(value in op.request["values"] for value in _values_of(ops, one))]
        there = [own]
        if not sure and op.outcome == "ok" and len(read) == 1:
            there, sure = read, True
        elif not sure:
            there = [own, *(one for one in read if one != own)]
        for nth, value in enumerate(op.request["values"]):
            offset = base + nth if sure and op.outcome == "ok" and base is not None else None
            found |= {(value, life, op.outcome if sure else "info", offset) for life in there}
    return found


def _values_of(ops: Sequence[Op], topic_id: str) -> set[int | None]:
    polls = [op for op in ops if op.f == "poll" and op.outcome == "ok" and op.request["topic_id"] == topic_id]
    return {value for poll in polls for _, value, _ in poll.records}


def read_in_two_lives(ops: Sequence[Op]) -> bool:
    """Some value was."""
    of = [_values_of(ops, topic_id) - {None} for topic_id in named(ops)]
    return any(one & other for nth, one in enumerate(of) for other in of[nth + 1 :])


def deleted_topic_read(ops: Sequence[Op]) -> bool:
    """A log of a life answered a poll that was asked once the next one had been told, or its deletion was answered."""
    order = lives(ops)
    for poll in (op for op in ops if op.f == "poll"):
        own = str(poll.request["topic_id"])
        served = poll.outcome == "ok" or poll.response.get("error") == "OFFSET_OUT_OF_RANGE"
        if not served or own not in order:
            continue
        over = [_gone_ns(ops, own)]
        over += [_told_ns(ops, order[order.index(own) + 1])] if own != order[-1] else []
        if any(at is not None and poll.invoked > at for at in over):
            return True
    return False


def _in_the_end(ops: Sequence[Op]) -> list[tuple[Op, str | None]]:
    """(last answer of a node in a round of the drain, where the last question had one; the life that it must tell)."""
    found: list[tuple[Op, str | None]] = []
    drained = [op for op in ops if op.f == TOLD and str(op.request["phase"]).startswith("drain")]
    for op in drained:
        same = [other for other in drained if all(other.request[k] == op.request[k] for k in ("phase", "node"))]
        if op is max(same, key=lambda one: (one.invoked, one.index)) and op.outcome == "ok":
            told = [one for one in lives(ops) if _told_ns(ops, one) < op.invoked]
            newest = told[-1] if told and _ended_ns(ops, told[-1]) is None else None
            found.append((op, newest))
    return found


def _denied(ops: Sequence[Op], op: Op) -> bool:
    """Whether the life that it tells had been refused to be deleted, as if nobody had it."""
    return any(
        other.f == ENDED
        and other.outcome == "fail"
        and other.response["error"] == "UNKNOWN_TOPIC_ID"
        and other.request["topic_id"] == _id(op)
        and _over(other) < op.invoked
        for other in ops
    )


def _known_before(ops: Sequence[Op], op: Op, ends: Ends) -> str | None:
    """The newest life that the same process had told before it was asked."""
    mine = life_of(op, ends)
    told = [
        _id(other)
        for other in _answers(ops)
        if mine is not None and life_of(other, ends) == mine and _over(other) < op.invoked
    ]
    return max((one for one in told if one is not None), key=lives(ops).index, default=None)


def lost_topic(ops: Sequence[Op], ends: Ends) -> bool:
    """A process forgets a topic, a broker has none in the end, or a name gets another one without a deletion."""
    order = lives(ops)
    for op in _answers(ops):
        known = _known_before(ops, op, ends)
        if _id(op) is None and known is not None:
            ended = _ended_ns(ops, known)
            if ended is None or ended > _over(op):
                return True
    if any(_id(op) is None and newest is not None for op, newest in _in_the_end(ops)):
        return True
    if any(_denied(ops, op) for op, _ in _in_the_end(ops)):
        return True
    for before, after in pairwise(order):
        ended = _ended_ns(ops, before)
        if ended is None or ended > _told_ns(ops, after):
            return True
    return False


def topic_id_again(ops: Sequence[Op], ends: Ends) -> bool:
    """A topic gets an id that was told, or a process, or a broker in the end, tells an earlier one."""
    order = lives(ops)
    for op in _answers(ops):
        found = _id(op)
        if found is None:
            continue
        if op.f == MADE and _told_ns(ops, found) < op.invoked:
            return True
        known = _known_before(ops, op, ends)
        if known is not None and order.index(known) > order.index(found):
            return True
    for op, newest in _in_the_end(ops):
        found, gone = _id(op), None
        if found is not None and newest is not None and order.index(found) < order.index(newest):
            return True
        if found is not None and newest is None:
            gone = _gone_ns(ops, found)
        if gone is not None and gone < op.invoked:
            return True
    return False


def history_of(rng: Random, topic: str) -> Story:
    """What a name goes through, in some twenty operations, some beside each other."""
    story = Story(topic)
    story.now = 10
    topics = Remakers(story)
    ids, there = ["A"], True
    topics.make("A")
    known = dict.fromkeys(NODES, -1)
    value, at = 0, story.now
    for _ in range(rng.randint(10, 20)):
        at += rng.randint(0, 5)
        when = {"invoked": max(11, at - rng.randint(0, 2)), "completed": at + rng.randint(1, 3)}
        node, wrong = rng.choice(NODES), rng.random() < 0.04
        lost = {"outcome": "info"} if rng.random() < 0.25 else {}
        match rng.choice(("tell", "tell", "tell", "send", "send", "poll", "poll", "turn", "turn")):
            case "tell":
                newest = len(ids) - 1
                known[node] = rng.randint(-1, newest) if wrong else rng.randint(max(known[node], -1), newest)
                shown = known[node] if there or known[node] < newest or rng.random() < 0.5 else -1
                topics.tell(ids[shown] if shown >= 0 else None, node=node, **when)
            case "send":
                value += 1
                where = {"outcome": "info"} if lost else {"offset": value}
                topics.send(ids[-1], value, process=value, **where, **when)
            case "poll":
                former = ids[-2] if len(ids) > 1 and rng.random() < 0.5 else ids[-1]
                if (former == ids[-1] and there) or wrong:
                    some = sorted(rng.sample(range(1, value + 1), min(value, 2)))
                    seen: list[tuple[int, int | None]] = [(one, one) for one in some]
                    topics.poll(former, 0, seen if rng.random() < 0.6 else [], **when)
                elif rng.random() < 0.05:
                    topics.poll(former, 0, [], outcome="fail", error="OFFSET_OUT_OF_RANGE", **when)
                else:
                    topics.refused(former, **when)
            case _ if there and not wrong:
                if rng.random() < 0.1:
                    topics.end(ids[-1], outcome="fail", error="UNKNOWN_TOPIC_ID", **when)
                else:
                    topics.end(ids[-1], **when, **lost)
                    there = False
            case _:
                ids.append(chr(ord("A") + len(ids)))
                there = True
                made = ids[-2] if wrong and rng.random() < 0.5 else ids[-1]
                topics.make(made, node=node, **when, **({} if made != ids[-1] else lost))
    if rng.random() < 0.3:
        story.nemesis("start", "kill", 1, [rng.choice(NODES)], at=rng.randint(11, at))
    for node in NODES:
        at += 5
        in_the_end = ids[-1] if there or rng.random() < 0.5 else None
        in_the_end = rng.choice((None, ids[0], ids[-1])) if rng.random() < 0.07 else in_the_end
        topics.tell(in_the_end, node=node, phase="drain-current", invoked=at, completed=at + 1)
        if rng.random() < 0.1:
            topics.tell(None, node=node, phase="drain-current", outcome="info", invoked=at + 2, completed=at + 3)
    return story
