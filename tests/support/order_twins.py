"""Whether operations have one order that explains them, the slow and plain way: every order is tried.

`has_order` tries all of a few operations, `has_places` all offsets of a few appends. `register_life` is a register that
keeps its promise, told as operations: clients that take their time, answers that are lost, copies that go on answering
when they are no longer the newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, permutations
from random import Random

from checkers.search.operations import Operation
from checkers.search.places import APPEND
from checkers.search.register import READ, WRITE


def has_order(operations: Sequence[Operation], initial: int) -> bool:
    """Of a register."""
    done = [op for op in operations if op.complete_ns is not None]
    never = [op for op in operations if op.complete_ns is None and op.f == WRITE]
    taking_effect = chain.from_iterable(combinations(never, count) for count in range(len(never) + 1))
    return any(_explains(order, initial) for some in taking_effect for order in permutations([*done, *some]))


def _explains(order: Sequence[Operation], initial: int) -> bool:
    state = initial
    for op in order:
        if op.f == WRITE:
            state = op.value
        elif op.value != state:
            return False
    return not any(_before(later, earlier) for at, later in enumerate(order) for earlier in order[:at])


def _before(a: Operation, b: Operation) -> bool:
    """Whether a has to stand before b."""
    if a.complete_ns is None:
        return False
    in_session = a.session is not None and a.session == b.session and a.complete_ns < b.invoke_ns
    return in_session or a.complete_ns < b.open_ns


def random_operations(rng: Random, most: int) -> list[Operation]:
    """Some of which have an order, and others none."""
    return [_random_operation(rng, index) for index in range(rng.randint(1, most))]


def _random_operation(rng: Random, index: int) -> Operation:
    write, invoked = rng.random() < 0.5, rng.randint(0, 12)
    lost = rng.random() < (0.4 if write else 0.05)
    return Operation(
        index,
        WRITE if write else READ,
        rng.randint(0, 2),
        invoked,
        None if lost else invoked + rng.randint(0, 5),
        rng.choice((None, "a", "b")),
        None if write or rng.random() < 0.5 else rng.randint(0, invoked),
    )


def register_life(rng: Random, length: int) -> list[Operation]:
    """Operations of a register that begins at 0; each write has a value of its own. Reads of session `copy` show what
    was there at some moment since the one that they name, and never less than one before.
    """
    value, copy, copied_ns, now = 0, 0, 0, 0
    life: list[Operation] = []
    effects = _effects(rng, length)
    for index, effect in enumerate(effects):
        now += rng.randint(1, 4)
        begun, over = now - rng.randint(0, 3), now + rng.randint(0, 3)
        match effect:
            case "write":
                value = index + 1
                life.append(Operation(index, WRITE, value, begun, over, "main"))
            case "lost":
                value = index + 1
                life.append(Operation(index, WRITE, value, begun - rng.randint(0, 30), None))
            case "without effect":
                life.append(Operation(index, WRITE, index + 1, begun, None))
            case "read":
                life.append(Operation(index, READ, value, begun, over, "main"))
            case "copy":
                copy, copied_ns = value, now
            case _:
                life.append(Operation(index, READ, copy, now, over, f"copy{copied_ns}", copied_ns))
    return life


def _effects(rng: Random, length: int) -> Iterator[str]:
    for _ in range(length):
        yield rng.choice(("write", "write", "lost", "without effect", "read", "read", "copy", "stale read"))


def with_older_read(rng: Random, life: Sequence[Operation]) -> list[Operation] | None:
    """The same with one read that returns what had been overwritten for certain when it was asked; None where there is
    none that could.
    """
    writes = [op for op in life if op.f == WRITE and op.complete_ns is not None]
    reads = [op for op in life if op.f == READ and op.complete_ns is not None and op.since_ns is None]
    rng.shuffle(reads)
    for read in reads:
        over = [op for op in writes if _ended(op) < read.invoke_ns]
        overwritten = [op for op in over if _ended(op) < max(other.invoke_ns for other in over)]
        if overwritten:
            value = rng.choice(overwritten).value
            planted = Operation(read.index, READ, value, read.invoke_ns, read.complete_ns, read.session)
            return [planted if op is read else op for op in life]
    return None


def _ended(op: Operation) -> int:
    assert op.complete_ns is not None
    return op.complete_ns


def has_places(appends: Sequence[Operation], passed_over: Sequence[tuple[int, int]]) -> bool:
    """Whether those without an offset have some, each its own where nobody saw that nothing is, which all respect real
    time.
    """
    known = {op.index: op.value for op in appends if op.value is not None}
    floating = [op.index for op in appends if op.value is None]
    end = max([0, *known.values(), *(end for _, end in passed_over)]) + len(floating) + 1
    free = [
        offset
        for offset in range(end)
        if offset not in known.values() and not any(start <= offset < end for start, end in passed_over)
    ]
    return any(
        _in_real_time(appends, {**known, **dict(zip(floating, chosen, strict=True))})
        for chosen in permutations(free, len(floating))
    )


def _in_real_time(appends: Sequence[Operation], at: dict[int, int]) -> bool:
    return all(at[a.index] < at[b.index] for a in appends for b in appends if _ended(a) < b.invoke_ns)


def random_appends(rng: Random, most: int) -> tuple[list[Operation], list[tuple[int, int]]]:
    """Appends roughly in the order of their offsets, some of which are not known, and ranges that polls passed over."""
    appends = []
    for index, offset in enumerate(rng.sample(range(7), rng.randint(1, most))):
        begun = max(0, 2 * offset + rng.randint(-2, 3))
        value = offset if rng.random() < 0.6 else None
        appends.append(Operation(index, APPEND, value, begun, begun + rng.randint(0, 5)))
    starts = [rng.randint(0, 7) for _ in range(rng.randint(0, 3))]
    return appends, [(start, start + rng.randint(1, 4)) for start in starts]
