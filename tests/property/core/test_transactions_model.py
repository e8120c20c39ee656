"""Transactions of ProducerStates against a twin that looks through the whole log at every question."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from broker.core.producers import snapshot
from broker.core.producers.state import ProducerStates
from broker.core.producers.transactions import EndedTransaction
from tests.support.examples import examples

MARKERS = ("commit", "abort")


class Entry(NamedTuple):
    """One offset of the log. kind: a batch inside or outside of a transaction, or a marker."""

    producer: int
    kind: str


ENTRIES = st.builds(Entry, st.integers(0, 3), st.sampled_from(["transactional", "transactional", "plain", *MARKERS]))
PLAIN = st.builds(Entry, st.integers(0, 3), st.just("plain"))


def transactions_in(log: list[Entry]) -> list[tuple[int, int, int | None]]:
    """(producer, first offset, offset of the marker or None)."""
    found: list[tuple[int, int, int | None]] = []
    for offset, entry in enumerate(log):
        place = next((i for i, (p, _, last) in enumerate(found) if p == entry.producer and last is None), None)
        if entry.kind == "transactional":
            if place is None:
                found.append((entry.producer, offset, None))
        elif place is not None and entry.kind in MARKERS:
            found[place] = (entry.producer, found[place][1], offset)
    return found


def plain_last_stable(log: list[Entry], high_watermark: int) -> int:
    unstable = [first for _, first, last in transactions_in(log) if last is None or last >= high_watermark]
    return min([high_watermark, *unstable])


def take(states: ProducerStates, entry: Entry, offset: int) -> EndedTransaction | None:
    if entry.kind in MARKERS:
        return states.end_transaction(entry.producer, 0, 0, offset, entry.kind == "commit", 0.0)
    states.append(entry.producer, 0, offset, offset, offset, offset, 0.0)
    if entry.kind == "transactional":
        states.begin_transaction(entry.producer, offset, offset)
    return None


def restored(states: ProducerStates, offset: int) -> ProducerStates:
    """From a snapshot at offset."""
    again = ProducerStates()
    for known in snapshot.decode(snapshot.encode(states, 0, 0.0)) or []:
        producer, epoch, batch, _, coordinator_epoch, first_offset = known
        again.restore(producer, epoch, batch, 0.0, coordinator_epoch, first_offset, offset)
    return again


@examples(300)
@given(st.lists(st.tuples(ENTRIES, st.integers(0, 3)), max_size=60))
def test_last_stable_offset_is_what_the_whole_log_says(steps: list[tuple[Entry, int]]) -> None:
    states = ProducerStates()
    log: list[Entry] = []
    high_watermark = 0
    for entry, rise in steps:
        ended = take(states, entry, len(log))
        log.append(entry)
        closed = [found for found in transactions_in(log) if found[2] == len(log) - 1]
        assert (ended is not None) == bool(closed)
        if ended is not None:
            assert ended[:3] == closed[0]
            assert ended.last_stable_offset == plain_last_stable(log, len(log))
        high_watermark = min(len(log), high_watermark + rise)
        assert states.transactions.last_stable_offset(high_watermark) == plain_last_stable(log, high_watermark)


@examples(300)
@given(
    st.lists(ENTRIES, max_size=20), st.lists(PLAIN, max_size=10), st.data(), st.lists(ENTRIES, min_size=1, max_size=10)
)
def test_cut_leaves_the_transactions_of_what_is_left_or_says_that_they_are_not_known(
    first: list[Entry], behind: list[Entry], data: st.DataObject, more: list[Entry]
) -> None:
    log = first + behind
    snapshot_at = data.draw(st.integers(0, len(log) + 1), "snapshot at")
    end = data.draw(st.integers(0, len(log)), "end")
    states = ProducerStates()
    for offset, entry in enumerate(log):
        if offset == snapshot_at:
            states = restored(states, offset)
        take(states, entry, offset)
    if not states.cut(end):
        return
    left = log[:end]
    for entry in more:
        take(states, entry, len(left))
        left.append(entry)
    assert states.transactions.last_stable_offset(len(left)) == plain_last_stable(left, len(left))
