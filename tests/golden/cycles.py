"""Golden histories of cycles between transactions, of a model that keeps every rule but one.

Of what Kafka's transactions permit `bad` shows one cycle, which is counted and fails nothing; `ok` is close to it: the
same operations, in an order in which nothing stands before itself.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.cycle_stories import STORIES, read_around
from tests.support.judging import Case
from tests.support.model_cycles import CycleModel

Tell = Callable[[CycleModel], None]


def written_in_order(model: CycleModel) -> None:
    """Both are open at once, and a stands before b in both partitions."""
    a, b = model.begin(), model.begin()
    for txn, partition in ((a, 0), (b, 0), (a, 1), (b, 1)):
        model.send(txn, partition)
    model.end(b)
    model.end(a)


def read_whole(model: CycleModel) -> None:
    """What is open stands behind a's records, so that both are read."""
    a, holding, reader = model.begin(), model.begin(), model.begin()
    model.send(a, 0)
    model.send(a, 1)
    model.send(holding, 1)
    model.end(a)
    model.poll(0, txn=reader)
    model.poll(1, txn=reader)
    model.end(reader)
    model.end(holding, commit=False)


def read_and_written_behind(model: CycleModel) -> None:
    """b reads a, and wrote behind it."""
    a, b = model.begin(), model.begin()
    model.send(a, 1)
    model.send(b, 1)
    model.send(a, 0)
    model.end(a)
    model.poll(0, txn=b)
    model.end(b)


def read_and_written_before(model: CycleModel) -> None:
    """a read before b wrote, and wrote before it too."""
    a, b = model.begin(), model.begin()
    model.poll(0, txn=a)
    model.send(a, 1)
    model.send(b, 0)
    model.send(b, 1)
    model.end(b)
    model.end(a)


def one_read_before_the_other(model: CycleModel) -> None:
    """Each read where the other wrote; one of them once that stood there."""
    a, b = model.begin(), model.begin()
    model.poll(0, txn=a)
    model.send(a, 1)
    model.end(a)
    model.poll(1, txn=b)
    model.send(b, 0)
    model.end(b)


def of_one(model: CycleModel) -> None:
    """There is one transaction alone, and nobody reads it in time."""
    a = model.begin()
    model.send(a, 0)
    model.send(a, 1)
    model.end(a)


def aborted(tell: Tell) -> Tell:
    """The same, of which nothing is committed: an order of writes, reads or anti-dependencies is nowhere."""

    def change(model: CycleModel) -> None:
        tell(model)
        for line in model.story.lines:
            if line["f"] == "end_txn" and line["type"] == "invoke":
                line["commit"] = False
            if line["f"] == "poll" and line["type"] == "ok":
                line["records"] = []

    return change


_AROUND: dict[str, Tell] = {
    "g0": written_in_order,
    "g1b": read_whole,
    "g1c": read_and_written_behind,
    "g-single": read_and_written_before,
    "g2": one_read_before_the_other,
}

CYCLES: dict[str, tuple[Tell, Tell, Tell]] = {
    anomaly: (ok, read_around if anomaly == "g1c" else STORIES[anomaly][2], of_one) for anomaly, ok in _AROUND.items()
}
MORE_CYCLES: dict[tuple[str, str], Tell] = {
    ("g1c", "ok-permitted"): STORIES["g1c"][2],
    ("g0", "unknown-aborted"): aborted(STORIES["g0"][2]),
    ("g0", "bad-session"): STORIES["g0-session"][2],
    ("g0", "bad-strict"): STORIES["g0-strict"][2],
    ("g1c", "ok-session"): STORIES["g1c-session"][2],
    ("g-single", "bad-session"): STORIES["g-single-session"][2],
    ("g-single", "bad-strict"): STORIES["g-single-strict"][2],
}
PERMITTED = frozenset(CYCLES) - {"g1c"}
"""Never invalid: what is found is allowed."""
ALLOWED = {
    **{(anomaly, "bad"): 1 for anomaly in PERMITTED},
    **{case: 1 for case in MORE_CYCLES if not case[1].startswith("unknown")},
}
"""(anomaly, case) → how many cycles are counted; of the others none is."""
PARTITIONS = 3


def told(topic: str, tell: Tell) -> Case:
    """The story between transactions that do not overlap; where a verdict must lack something, alone."""
    model = CycleModel(topic, PARTITIONS)
    alone = tell is of_one or tell not in {*_AROUND.values(), read_around, *(story for _, _, story in STORIES.values())}
    if not alone:
        model.one_by_one(Random(1))
    tell(model)
    if not alone:
        model.one_by_one(Random(2))
    return Case(model.story.lines, partitions=PARTITIONS)
