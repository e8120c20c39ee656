"""Reassignments under every order of failures, with a controller that dies at any write: nothing committed is lost."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.reassigned_cluster import ReassignedCluster

pytestmark = pytest.mark.guarantee("C6")

BROKERS = 5
ids = st.integers(1, BROKERS)
targets = st.permutations(range(1, BROKERS + 1)).flatmap(
    lambda order: st.integers(1, 3).map(lambda count: tuple(order[:count]))
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), ids),
        st.tuples(st.just("deliver-all"), st.just(0)),
        st.tuples(st.just("round"), st.just(0)),
        st.tuples(st.just("round"), st.just(0)),
        st.tuples(st.just("append"), ids),
        st.tuples(st.just("fetch"), ids),
        st.tuples(st.just("fetch-all"), st.just(0)),
        st.tuples(st.just("alter"), ids),
        st.tuples(st.just("shrink"), ids),
        st.tuples(st.just("fail"), ids),
        st.tuples(st.just("start"), ids),
        st.tuples(st.just("reassign"), targets),
        st.tuples(st.just("cancel"), st.just(0)),
        st.tuples(st.just("die"), st.tuples(st.integers(1, 4), st.booleans())),
    ),
    max_size=40,
)


def play(cluster: ReassignedCluster, what: str, value: object) -> None:
    match what:
        case "deliver":
            cluster.deliver(value)  # type: ignore[arg-type]
        case "deliver-all":
            for id_ in cluster.nodes:
                while cluster.deliver(id_):
                    pass
        case "round":
            for one in ("deliver-all", "fetch-all"):
                play(cluster, one, 0)
            for id_ in cluster.nodes:
                cluster.append(id_)
            play(cluster, "fetch-all", 0)
            for id_ in cluster.nodes:
                cluster.alter_isr(id_)
        case "append":
            cluster.append(value)  # type: ignore[arg-type]
        case "fetch":
            cluster.fetch(value)  # type: ignore[arg-type]
        case "fetch-all":
            for id_ in cluster.nodes:
                cluster.fetch(id_)
        case "alter":
            cluster.alter_isr(value)  # type: ignore[arg-type]
        case "shrink":
            for id_ in cluster.nodes:
                cluster.alter_isr(id_, frozenset((value,)))  # type: ignore[arg-type]
        case "fail":
            cluster.fail(value)  # type: ignore[arg-type]
        case "start":
            cluster.start(value)  # type: ignore[arg-type]
        case "reassign":
            cluster.reassign(value)  # type: ignore[arg-type]
        case "cancel":
            cluster.reassign(None)
        case "die":
            cluster.die_at(*value)  # type: ignore[misc]


ONLY_THE_NEW_ONE_IS_LEFT: list[tuple[str, object]] = [
    ("round", 0),
    ("fail", 1),
    ("fail", 2),
    ("round", 0),
    ("fail", 3),
    ("round", 0),
    ("start", 1),
    ("cancel", 0),
    ("round", 0),
]


@given(steps, targets)
@example([("fail", 5), *ONLY_THE_NEW_ONE_IS_LEFT], (4, 5))
@examples(400)
def test_reassignment_any_history_keeps_what_was_committed(
    history: list[tuple[str, object]], first: tuple[int, ...]
) -> None:
    cluster = ReassignedCluster((1, 2, 3), BROKERS)
    play(cluster, "deliver-all", 0)
    for id_ in cluster.nodes:
        cluster.append(id_)
    cluster.reassign(first)
    for what, value in history:
        play(cluster, what, value)
        cluster.check()
    cluster.settle()
    topic = cluster.data.topics["t"][0]
    assert not topic.adding, "a reassignment never ended"
    assert not topic.removing
    state = next(iter(cluster.data.states.values())).state
    assert state.leader in topic.partitions[0]
    leader = cluster.nodes[state.leader].log
    assert leader is not None
    assert leader[: len(cluster.committed)] == cluster.committed
