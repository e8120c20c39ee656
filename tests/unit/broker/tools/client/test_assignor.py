from __future__ import annotations

from broker.tools.client.assignor import Subscriber, assign


def member(name: str, *topics: str, instance: str = "") -> Subscriber:
    return Subscriber(name, instance, frozenset(topics))


def test_each_topic_is_cut_into_neighbouring_parts_the_first_ones_larger() -> None:
    found = assign([member("b", "t", "u"), member("a", "t", "u"), member("c", "t")], {"t": 4, "u": 2})
    assert found == {
        "a": [("t", 0), ("t", 1), ("u", 0)],
        "b": [("t", 2), ("u", 1)],
        "c": [("t", 3)],
    }


def test_member_gets_nothing_of_topics_that_it_did_not_ask_for_or_that_are_not_there() -> None:
    assert assign([member("a", "gone"), member("b")], {"t": 3}) == {"a": [], "b": []}


def test_static_members_come_first_by_their_instances() -> None:
    members = [member("a", "t"), member("z", "t", instance="1"), member("y", "t", instance="2")]
    assert assign(members, {"t": 3}) == {"z": [("t", 0)], "y": [("t", 1)], "a": [("t", 2)]}
