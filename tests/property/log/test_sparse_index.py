"""An index answers as the plain list of its entries would, whatever it remembers of its file."""

from __future__ import annotations

import tempfile
from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st

from broker.log.indexes.offset_index import OffsetIndex
from tests.support.examples import examples

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 1500)),
        st.tuples(st.just("spill"), st.just(0)),
        st.tuples(st.just("open again"), st.just(0)),
        st.tuples(st.just("hold"), st.integers(0, 1)),
        st.tuples(st.just("cut"), st.integers(0, 10_000)),
        st.tuples(st.just("read on"), st.integers(0, 10_000)),
        st.tuples(st.just("offset"), st.integers(-5, 12_000)),
        st.tuples(st.just("position"), st.integers(-5, 120_000)),
    ),
    max_size=25,
)


@examples(120)
@given(_STEPS)
def test_index_any_history_finds_what_a_list_would(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = OffsetIndex(folder, 0)
        index.create()
        entries: list[tuple[int, int]] = []

        def check(column: int, key: int) -> None:
            wanted = bisect_right(entries, key, key=lambda entry: entry[column]) - 1
            assert index.floor(column, key) == wanted
            if wanted >= 0:
                assert index.entry(wanted) == entries[wanted]

        for step, amount in steps:
            if step == "push":
                for _ in range(amount):
                    last = entries[-1] if entries else (0, 0)
                    entries.append((last[0] + 3, last[1] + 31))
                    index.push(*entries[-1])
            elif step == "spill":
                index.spill()
            elif step == "open again":
                index.spill()
                index.close()
                index.open()
                assert index.last() == (entries[-1] if entries else None)
            elif step == "hold":
                if amount:
                    index.hold()
                else:
                    index.let_go()
            elif step == "cut":
                del entries[amount:]
                index.truncate(amount)
            elif step == "read on":
                for offset in range(amount, amount + 6000, 500):
                    check(0, offset)
                    check(1, offset * 10)
            else:
                check(0 if step == "offset" else 1, amount)
        index.close()
