"""Placement, by example: Kafka's own published layouts."""

from __future__ import annotations

import pytest

from broker.core.admin.topic_names import collisions, refusal
from broker.core.controller.assignment import AssignmentRefused, alternate_racks, assign, check_manual

pytestmark = pytest.mark.guarantee("C7")


def test_five_brokers_ten_partitions_as_kafka_documents() -> None:
    # The table in AdminUtils' documentation: p0…p9 over brokers 0-4, fixed start 0.
    assigned = assign(dict.fromkeys(range(5)), 10, 3, 0, 0)
    assert assigned[0] == (0, 1, 2)
    assert assigned[4] == (4, 0, 1)
    assert assigned[5] == (0, 2, 3)
    assert assigned[9] == (4, 1, 2)


def test_racks_alternate() -> None:
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]


def test_rack_aware_spreads_over_racks_as_kafka_documents() -> None:
    racks: dict[int, str | None] = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assigned = assign(racks, 7, 3, 0, 0)
    assert assigned[0] == (0, 3, 1)
    assert assigned[5] == (2, 0, 3)
    assert assigned[6] == (0, 4, 2)


def test_replication_factor_above_brokers_has_kafkas_text() -> None:
    with pytest.raises(AssignmentRefused) as refused:
        assign({1: None, 2: None, 3: None}, 1, 5, 0, 0)
    assert str(refused.value) == "Replication factor: 5 larger than available brokers: 3."
    assert refused.value.kind == "replication-factor"


@pytest.mark.parametrize(("partitions", "factor", "kind"), [(0, 1, "partitions"), (1, 0, "replication-factor")])
def test_counts_below_one_are_refused(partitions: int, factor: int, kind: str) -> None:
    with pytest.raises(AssignmentRefused) as refused:
        assign({1: None}, partitions, factor, 0, 0)
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ({1: (1, 2)}, "consecutive"),
        ({0: (1, 2), 1: (1,)}, "same number"),
        ({0: (1, 1)}, "Duplicate brokers"),
        ({0: (1, 9)}, "not available"),
        ({0: ()}, "replication factor of 0"),
    ],
)
def test_manual_assignment_refusals(assignment: dict[int, tuple[int, ...]], text: str) -> None:
    with pytest.raises(AssignmentRefused, match=text):
        check_manual(assignment, [1, 2, 3])


def test_manual_assignment_accepts_different_live_replicas() -> None:
    check_manual({0: (1, 2), 1: (3, 1)}, [1, 2, 3])


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "x" * 250, "a/b"])
def test_illegal_topic_names_are_refused(name: str) -> None:
    assert refusal(name) is not None


@pytest.mark.parametrize("name", ["a", "a.b_c-D9", "x" * 249, "..."])
def test_legal_topic_names_pass(name: str) -> None:
    assert refusal(name) is None


def test_names_that_differ_in_dot_and_underscore_collide() -> None:
    assert collisions("a.b", ["a_b", "a-b", "a.b"]) == ["a_b"]
    assert collisions("ab", ["ab"]) == []
