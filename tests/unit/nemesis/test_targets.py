from __future__ import annotations

from random import Random

import pytest

from nemesis.targets import choose, shown_role
from tests.support.fake_cluster import FakeNode, FakeView


def chosen(selector: str, view: FakeView, seeds: int = 40) -> set[tuple[str, ...]]:
    return {choose(selector, Random(seed), view) for seed in range(seeds)}


def test_choose_leader_takes_a_partition_that_has_one() -> None:
    assert chosen("leader", FakeView()) == {("n2",)}


def test_choose_leader_none_known_takes_any_broker() -> None:
    view = FakeView()
    view.leaders[0] = None
    assert chosen("leader", view) == {("n1",), ("n2",), ("n3",)}


def test_choose_follower_spares_leader_and_controller() -> None:
    assert chosen("follower", FakeView()) == {("n3",)}


def test_choose_follower_only_the_controller_follows_takes_it() -> None:
    view = FakeView()
    view.isrs[0] = ("n2", "n1")
    assert chosen("follower", view) == {("n1",)}


def test_choose_controller_unknown_takes_any_broker() -> None:
    view = FakeView()
    assert chosen("controller", view) == {("n1",)}
    view.controller_name = None
    assert len(chosen("controller", view)) == 3


def test_choose_coordinator_takes_who_leads_a_partition_that_coordinates() -> None:
    view = FakeView()
    assert chosen("group-coordinator", view) == {("n3",)}
    view.coordinators["transaction"] = {0: "n1", 1: "n2", 2: None}
    assert chosen("transaction-coordinator", view) == {("n1",), ("n2",)}


def test_choose_coordinator_none_known_takes_any_broker_and_the_role_says_so() -> None:
    view = FakeView()
    assert chosen("transaction-coordinator", view) == {("n1",), ("n2",), ("n3",)}
    assert shown_role("transaction-coordinator", ("n1",), view) == "any broker: no transaction-coordinator is known"
    assert shown_role("group-coordinator", ("n3",), view) == "group-coordinator"
    assert shown_role("group-coordinator", ("n1",), view) == "any broker: no group-coordinator is known"
    assert shown_role("leader", ("n2",), view) is None


def test_choose_coordinator_asks_about_few_partitions_where_none_has_a_leader() -> None:
    view = FakeView()
    asked = []

    def coordinator(kind: str, partition: int) -> None:
        asked.append(partition)

    view.coordinators["group"] = dict.fromkeys(range(50))
    view.coordinator = coordinator  # type: ignore[method-assign]
    choose("group-coordinator", Random(1), view)
    assert len(asked) == 5


def test_choose_leading_controller_takes_a_leader_where_the_controller_leads_nothing() -> None:
    view = FakeView()
    assert chosen("leading-controller", view) == {("n2",)}
    view.leaders[0] = "n1"
    assert chosen("leading-controller", view) == {("n1",)}
    view.controller_name = None
    assert chosen("leading-controller", view) == {("n1",)}


@pytest.mark.parametrize(("brokers", "minority", "majority"), [(1, 1, 1), (2, 1, 2), (3, 1, 2), (4, 1, 3), (5, 2, 3)])
def test_choose_minority_and_majority_by_cluster_size(brokers: int, minority: int, majority: int) -> None:
    view = FakeView()
    view.brokers = [FakeNode(f"n{i}", f"10.0.0.{i}") for i in range(1, brokers + 1)]
    assert {len(names) for names in chosen("minority", view)} == {minority}
    assert {len(names) for names in chosen("majority", view)} == {majority}
    assert all(len(set(names)) == len(names) for names in chosen("majority", view))


def test_choose_all_one_and_by_name() -> None:
    view = FakeView()
    assert chosen("all", view) == {("n1", "n2", "n3")}
    assert chosen("one", view) == {("n1",), ("n2",), ("n3",)}
    assert chosen("zk1", view) == {("zk1",)}


def test_choose_unknown_selector_names_it_and_what_is_allowed() -> None:
    with pytest.raises(ValueError, match=r"'n7' is neither.*leader.*zk1"):
        choose("n7", Random(1), FakeView())


def test_choose_same_seed_same_choice() -> None:
    assert choose("one", Random("7/3"), FakeView()) == choose("one", Random("7/3"), FakeView())


def test_choose_last_in_sync_takes_who_is_alone_in_an_isr() -> None:
    view = FakeView()
    view.leaders, view.isrs = {0: "n2", 1: "n1", 2: "n3"}, {0: ("n2", "n1"), 1: ("n1",), 2: ("n3",)}
    assert chosen("last-in-sync", view) == {("n1",), ("n3",)}
    assert shown_role("last-in-sync", ("n1",), view) == "last-in-sync"
    assert shown_role("last-in-sync", ("n2",), view) == "another broker: no ISR of one is known"


def test_choose_last_in_sync_without_an_isr_of_one_takes_a_leader_and_the_role_says_so() -> None:
    view = FakeView()
    assert chosen("last-in-sync", view) == {("n2",)}
    assert shown_role("last-in-sync", ("n2",), view) == "another broker: no ISR of one is known"
    view.isrs[0] = ()
    view.leaders[0] = None
    assert chosen("last-in-sync", view) == {("n1",), ("n2",), ("n3",)}
