"""What a read-back says of a write that lost its answer."""

from __future__ import annotations

import pytest

from broker.zk.operations import (
    Check,
    Create,
    CreateSequence,
    Delete,
    Landed,
    Node,
    Operation,
    SetData,
    landed,
    landed_together,
)

ME, OTHER = 7, 8


def node(data: bytes = b"d", version: int = 0, owner: int = 0) -> Node:
    return Node(data, version, 1, 1, owner)


@pytest.mark.parametrize(
    ("operation", "found", "expected"),
    [
        (Create("/a", b"d"), None, Landed.NO),
        (Create("/a", b"d"), node(), Landed.YES),
        (Create("/a", b"d"), node(b"other"), Landed.OVERTAKEN),
        (Create("/a", b"d", ephemeral=True), node(owner=ME), Landed.YES),
        (Create("/a", b"d", ephemeral=True), node(owner=OTHER), Landed.OVERTAKEN),
        (SetData("/a", b"d", 3), node(b"old", 3), Landed.NO),
        (SetData("/a", b"d", 3), node(b"d", 4), Landed.YES),
        (SetData("/a", b"d", 3), node(b"x", 4), Landed.OVERTAKEN),
        (SetData("/a", b"d", 3), node(b"d", 5), Landed.OVERTAKEN),
        (SetData("/a", b"d", 3), None, Landed.OVERTAKEN),
        (Delete("/a", 2), None, Landed.YES),
        (Delete("/a", 2), node(version=2), Landed.NO),
        (Delete("/a", 2), node(version=3), Landed.OVERTAKEN),
        (Delete("/a"), node(version=3), Landed.NO),
    ],
)
def test_landed(operation: Create | SetData | Delete, found: Node | None, expected: Landed) -> None:
    assert landed(operation, found, ME) is expected


def test_multi_landed_by_its_writes_not_its_checks() -> None:
    multi: list[Operation] = [Check("/epoch", 5), SetData("/s", b"d", 0)]
    assert landed_together(multi, {"/epoch": node(version=9), "/s": node(b"d", 1)}, ME) is Landed.YES
    assert landed_together(multi, {"/epoch": node(version=5), "/s": node(b"o", 0)}, ME) is Landed.NO


def test_multi_with_mixed_evidence_was_overtaken() -> None:
    multi: list[Operation] = [Create("/controller", b"1", ephemeral=True), SetData("/epoch", b"6", 5)]
    nodes = {"/controller": node(b"2", owner=OTHER), "/epoch": node(b"6", 6)}
    assert landed_together(multi, nodes, ME) is Landed.OVERTAKEN


TAKE_OVER: list[Operation] = [
    Create("/suspicions/1-5", b"2"),
    Delete("/controller"),
    Create("/controller", b"2", ephemeral=True),
    SetData("/epoch", b"6", 5),
]


@pytest.mark.parametrize(
    ("note", "controller", "epoch", "expected"),
    [
        (node(b"2"), node(b"2", owner=ME), node(b"6", 6), Landed.YES),
        (None, node(b"1", owner=OTHER), node(b"5", 5), Landed.NO),
        (None, None, node(b"5", 5), Landed.NO),
        (node(b"3"), node(b"3", owner=OTHER), node(b"6", 6), Landed.OVERTAKEN),
    ],
)
def test_multi_that_makes_anew_what_it_deletes_landed_by_what_is_there(
    note: Node | None, controller: Node | None, epoch: Node, expected: Landed
) -> None:
    nodes = {"/suspicions/1-5": note, "/controller": controller, "/epoch": epoch}
    assert landed_together(TAKE_OVER, nodes, ME) is expected


def test_multi_with_a_sequence_node_landed_by_its_other_writes() -> None:
    multi: list[Operation] = [SetData("/s", b"d", 0), CreateSequence("/changes/change_", b"s")]
    assert landed_together(multi, {"/s": node(b"d", 1), "/changes/change_": None}, ME) is Landed.YES
    assert landed_together(multi, {"/s": node(b"o", 0), "/changes/change_": None}, ME) is Landed.NO


def test_unconditional_set_is_refused() -> None:
    with pytest.raises(AssertionError):
        SetData("/a", b"", -1)
