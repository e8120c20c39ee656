"""Grouped come and go with their members."""

from __future__ import annotations

from broker.model.grouped import Grouped


def test_group_is_there_as_long_as_it_has_members() -> None:
    groups: Grouped[int, str] = Grouped()
    groups.add("a", 1, "one")
    groups.add("a", 2, "two")
    groups.add("b", 1, "other")
    groups.add("a", 1, "anew")
    assert list(groups) == ["a", "b"]
    assert list(groups.of("a")) == ["anew", "two"]
    assert not groups.remove("a", 1)
    assert not groups.remove("a", 1)
    assert groups.remove("a", 2)
    assert list(groups) == ["b"]
    assert list(groups.of("a")) == []
    assert groups.remove("a", 2)
