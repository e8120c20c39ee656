"""One cycle each, by what a broker that keeps every rule permits, and the one that it does not."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.model_cycles import CycleModel


def written_around(model: CycleModel) -> None:
    """G0: in one partition a before b, in the other b before a."""
    a, b = model.begin(), model.begin()
    for txn, partition in ((a, 0), (b, 0), (b, 1), (a, 1)):
        model.send(txn, partition)
    model.end(a)
    model.end(b)


def read_in_part(model: CycleModel) -> None:
    """G1b: what is open in the other partition holds back a's record there."""
    holding, a, reader = model.begin(), model.begin(), model.begin()
    model.send(holding, 1)
    model.send(a, 0)
    model.send(a, 1)
    model.end(a)
    model.poll(0, txn=reader)
    model.poll(1, txn=reader)
    model.end(reader)
    model.end(holding, commit=False)


def read_and_written_around(model: CycleModel) -> None:
    """G1c: b reads a, and wrote before it."""
    a, b = model.begin(), model.begin()
    model.send(b, 1)
    model.send(a, 1)
    model.send(a, 0)
    model.end(a)
    model.poll(0, txn=b)
    model.end(b)


def read_around(model: CycleModel) -> None:
    """G1c of reads alone, which is wrong: each is shown what the other has not committed."""
    a, b = model.begin(), model.begin()
    model.send(a, 0)
    model.send(b, 1)
    model.poll(1, txn=a, dirty=True)
    model.poll(0, txn=b, dirty=True)
    model.end(a)
    model.end(b)


def read_before(model: CycleModel) -> None:
    """G-single: a read before b wrote, and wrote after it."""
    a, b = model.begin(), model.begin()
    model.poll(0, txn=a)
    model.send(b, 0)
    model.send(b, 1)
    model.send(a, 1)
    model.end(a)
    model.end(b)


def read_before_each_other(model: CycleModel) -> None:
    """G2: each read where the other wrote then."""
    a, b = model.begin(), model.begin()
    model.poll(0, txn=a)
    model.poll(1, txn=b)
    model.send(a, 1)
    model.send(b, 0)
    model.end(a)
    model.end(b)


def written_around_two(model: CycleModel, process: int | None) -> None:
    """x stands before the first of two and behind the second, which one process carried out, or two."""
    x, first = model.begin(), model.begin(process)
    model.send(x, 0)
    model.send(first, 0)
    model.end(first)
    second = model.begin(process)
    model.send(second, 1)
    model.end(second)
    model.send(x, 1)
    model.end(x)


def read_around_two(model: CycleModel, process: int | None) -> None:
    """x stands before the first of two and reads y, behind which the second stands."""
    x, first = model.begin(), model.begin(process)
    model.send(x, 0)
    model.send(first, 0)
    model.end(first)
    second, y = model.begin(process), model.begin()
    model.send(second, 1)
    model.end(second)
    model.send(y, 1)
    model.send(y, 2)
    model.end(y)
    model.poll(2, txn=x)
    model.end(x)


def seen_and_gone(model: CycleModel) -> None:
    """One process polls one partition and sees x, then the other, where what is open holds it back."""
    holding, x = model.begin(), model.begin()
    model.send(holding, 0)
    model.send(x, 0)
    model.send(x, 1)
    model.end(x)
    process = model.fresh_process()
    model.poll(1, process=process)
    model.poll(0, process=process)
    model.end(holding, commit=False)


def over_and_not_seen(model: CycleModel) -> None:
    """A transaction begins once x is over, and does not see it, for what is open holds it back."""
    holding, x = model.begin(), model.begin()
    model.send(holding, 0)
    model.send(x, 0)
    model.end(x)
    late = model.begin()
    model.poll(0, txn=late)
    model.send(late, 1)
    model.end(late)
    model.end(holding, commit=False)


STORIES: dict[str, tuple[str, str, Callable[[CycleModel], None]]] = {
    "g0": ("g0", "", written_around),
    "g1b": ("g1b", "", read_in_part),
    "g1c": ("g1c", "", read_and_written_around),
    "g1c-reads": ("g1c", "reads", read_around),
    "g-single": ("g-single", "", read_before),
    "g2": ("g2", "", read_before_each_other),
    "g0-session": ("g0", "session", lambda model: written_around_two(model, model.fresh_process())),
    "g0-strict": ("g0", "strict", lambda model: written_around_two(model, None)),
    "g1c-session": ("g1c", "session", lambda model: read_around_two(model, model.fresh_process())),
    "g1c-strict": ("g1c", "strict", lambda model: read_around_two(model, None)),
    "g-single-session": ("g-single", "session", seen_and_gone),
    "g-single-strict": ("g-single", "strict", over_and_not_seen),
}
"""Name → (checker, form, or `reads` for what is wrong; story). Of three partitions."""
