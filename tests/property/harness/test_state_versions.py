"""Versions of a partition's state by the lab's decoder and by the checkers', which share nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence.zk_txnlog import read_log_folder
from harness.report.life.files import RunFiles
from harness.report.life.zookeeper import versions
from tests.support.evidence_files import create_body, set_body, transaction, txn_log
from tests.support.life_files import STATE, state

pytestmark = pytest.mark.guarantee("V6")

PATHS = (STATE, "/brokers/topics/hw/partitions/1/state", "/brokers/topics/hw", "/controller_epoch")

changes = st.tuples(
    st.sampled_from(["create", "set", "set", "delete", "error"]),
    st.sampled_from(PATHS),
    st.integers(-1, 5),
    st.integers(0, 9),
)
transactions = st.lists(st.tuples(st.lists(changes, min_size=1, max_size=3), st.booleans()), max_size=12)


def part(change: tuple[str, str, int, int]) -> tuple[int, bytes]:
    op, path, leader, number = change
    data = state(leader, number, [leader])
    if op == "error":
        return -1, (-110).to_bytes(4, "big", signed=True)
    if op == "create":
        return 1, create_body(path, data)
    if op == "set":
        return 5, set_body(path, data, number)
    return 2, len(path).to_bytes(4, "big") + path.encode()


def body(zxid: int, made: list[tuple[str, str, int, int]], *, multi: bool) -> bytes:
    parts = [part(change) for change in made]
    if not multi and len(parts) == 1:
        return transaction(zxid, *parts[0], time_ms=zxid)
    joined = b"".join(kind.to_bytes(4, "big", signed=True) + len(one).to_bytes(4, "big") + one for kind, one in parts)
    return transaction(zxid, 14, len(parts).to_bytes(4, "big") + joined, time_ms=zxid)


@given(transactions, st.integers(0, 400), st.booleans())
def test_both_decoders_find_the_same_versions(
    made: list[tuple[list[tuple[str, str, int, int]], bool]], cut: int, tear: bool
) -> None:
    data = txn_log(body(nth, of, multi=multi) for nth, (of, multi) in enumerate(made, 1))
    if tear:
        data = data[: max(16, len(data) - 1024 - cut)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "evidence" / "zk1" / "zookeeper" / "version-2"
        folder.mkdir(parents=True)
        (folder / "log.1").write_bytes(data)
        theirs = read_log_folder(folder)
        ours = versions(RunFiles.below(Path(name)), ["zk1"], "hw-0")
    expected = [
        (change.zxid, change.position, change.time_ms, change.version)
        for change in theirs.changes
        if change.path == STATE and change.op != "delete"
    ]
    assert [(one.zxid, one.position, one.time_ms, one.number) for one in ours.found if not one.deleted] == expected
    # A deletion of what was never there tells nothing.
    gone = [
        (change.zxid, change.position) for change in theirs.changes if change.path == STATE and change.op == "delete"
    ]
    assert [(one.zxid, one.position) for one in ours.found if one.deleted] == [
        at for at in gone if any(of[:2] < at for of in expected)
    ]
    assert bool(ours.problems) == bool(theirs.problems)
