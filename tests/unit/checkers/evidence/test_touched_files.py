from __future__ import annotations

from types import SimpleNamespace

import pytest

from checkers.evidence.touched_files import NOTHING_TOUCHED, TouchedFiles, touched_by
from checkers.history.faults import partition_of_file

pytestmark = pytest.mark.guarantee("V2")


def hit(node: str, file: str | None, *, hurts: bool = True, cuts: bool = False) -> SimpleNamespace:
    return SimpleNamespace(node=node, file=file, hurts=hurts, cuts=cuts)


def test_file_of_a_partition_touches_that_replica_alone() -> None:
    touched = touched_by([hit("n1", "hw-0/00000000000000000000.log"), hit("n1", "hw-2/leader-epoch-checkpoint")])
    assert touched == TouchedFiles(folders=frozenset({("n1", "hw-0"), ("n1", "hw-2")}))
    assert touched.names() == ["hw-0 on n1", "hw-2 on n1"]
    assert touched.partitions() == ["hw-0", "hw-2"]


def test_file_of_no_partition_touches_no_replica() -> None:
    touched = touched_by([hit("n2", "replication-offset-checkpoint")])
    assert touched == TouchedFiles(shared=frozenset({"n2"}))
    assert touched.names() == []


def test_fault_that_names_no_file_may_have_touched_all_of_its_node() -> None:
    touched = touched_by([hit("n3", None), hit("n1", "hw-0/00000000000000000000.log")])
    assert touched.whole == {"n3"}
    assert touched.names() == ["n3", "hw-0 on n1"]


def test_power_that_is_cut_touches_no_file_and_is_known() -> None:
    touched = touched_by([hit("n1", None, hurts=False, cuts=True), hit("n2", None, cuts=True)])
    assert touched == TouchedFiles(whole=frozenset({"n2"}), unsynced=frozenset({"n1", "n2"}))
    assert touched.names() == ["n2"]


def test_no_fault_touches_nothing() -> None:
    assert touched_by([]) == NOTHING_TOUCHED


@pytest.mark.parametrize(
    ("file", "p"),
    [
        ("hw-0/00000000000000000000.log", "hw-0"),
        ("dir-1/my-topic-12/x.index", "my-topic-12"),
        ("recovery-point-offset-checkpoint", None),
        ("hw-0.5f3a-delete/00000000000000000000.log", None),
    ],
)
def test_partition_of_a_file_is_its_folder(file: str, p: str | None) -> None:
    assert partition_of_file(file) == p
