"""What the transaction logs of several ZooKeeper servers say together: which changes were made, and what is missing."""

from __future__ import annotations

import pytest

from checkers.evidence.zk_ensemble import merged
from checkers.evidence.zk_txnlog import Change, TxnLog

pytestmark = pytest.mark.guarantee("V2")


def _log(*zxids: int, unread: tuple[str, ...] = (), snapshots: tuple[int, ...] = ()) -> TxnLog:
    """The log of so many creations, of a server that was in no later epoch."""
    changes = [Change(zxid, 0, 0, 7, "create", f"/{zxid}", 0, "") for zxid in zxids]
    return TxnLog(changes, list(zxids), list(unread), list(snapshots), max(zxids) >> 32)


@pytest.mark.parametrize(
    ("logs", "problems"),
    [
        # The second was sent a snapshot of what it lacks.
        ({"zk1": _log(*range(1, 9)), "zk2": _log(1, 2, 7, 8)}, []),
        # The first was away in the end, and saw nothing of what the second was sent as a snapshot.
        ({"zk1": _log(1, 2, 3), "zk2": _log(1, 7, 8)}, ["transactions are missing before zxid 0x7"]),
        ({"zk1": _log(1, 2, 3), "zk2": _log(1, 4, 5)}, []),
        ({"zk1": _log(1, 2, 3), "zk2": _log(1, 2, 3, 4, unread=("log.1: torn",))}, ["zk2: log.1: torn"]),
        ({"zk1": _log(1, 2, 3, 4), "zk2": _log(1, 2, 3, unread=("log.1: torn",))}, []),
        ({"zk1": _log(1, 3)}, ["transactions are missing before zxid 0x3"]),
    ],
)
def test_txn_logs_of_several_servers_have_every_transaction_together(
    logs: dict[str, TxnLog], problems: list[str]
) -> None:
    changes, found = merged(logs)
    assert found == problems
    assert [change.zxid for _, change in changes] == sorted({zxid for log in logs.values() for zxid in log.zxids})


REGISTERED = "/brokers/ids/1"
CREATED = Change(1, 0, 0, 9, "create", REGISTERED, 0, "{}", ephemeral=True)
CLOSED = Change(3, 0, 0, 9, "close", "", None, None)


@pytest.mark.parametrize(
    "logs",
    [
        # The second was sent a snapshot that had it, and no log that is there has both.
        {"zk1": TxnLog([CREATED], [1, 2], epoch=0), "zk2": TxnLog([CLOSED], [2, 3], epoch=0)},
        {"zk1": TxnLog([CLOSED], [3], epoch=0), "zk2": TxnLog([CREATED, CLOSED], [1, 2, 3], epoch=0)},
    ],
)
def test_txn_log_of_another_server_ends_the_session_of_an_ephemeral(logs: dict[str, TxnLog]) -> None:
    changes, problems = merged(logs)
    assert [(one.zxid, one.op, one.path) for _, one in changes] == [
        (1, "create", REGISTERED),
        (3, "delete", REGISTERED),
    ]
    assert not problems


@pytest.mark.parametrize("deleted_by", [8, 9])
def test_txn_log_of_a_session_that_ends_deletes_what_is_its_own_still(deleted_by: int) -> None:
    """Its znode had been deleted, and made again by another session."""
    gone = Change(2, 0, 0, deleted_by, "delete", REGISTERED, None, None)
    again = Change(3, 0, 0, 8, "create", REGISTERED, 0, "{}", ephemeral=True)
    closed = CLOSED._replace(zxid=4)
    changes, problems = merged({"zk1": TxnLog([CREATED, gone, again, closed], [1, 2, 3, 4])})
    assert [(one.zxid, one.op) for _, one in changes] == [(1, "create"), (2, "delete"), (3, "create")]
    assert not problems


FIRST_EPOCH = (1, 2, 3)
NEXT_EPOCH = ((1 << 32) + 1, (1 << 32) + 2)


@pytest.mark.parametrize(
    ("snapshots", "missing"),
    [
        # What a leader begins with, and what a log has.
        ((0, 2, 3, 1 << 32), None),
        ((3, 7), "zk1: a snapshot holds transactions up to 0x7, which no log has"),
        (((1 << 32) + 4,), "zk1: a snapshot holds transactions up to 0x100000004, which no log has"),
    ],
)
def test_txn_logs_that_lack_the_end_of_an_epoch_show_it_by_a_snapshot(
    snapshots: tuple[int, ...], missing: str | None
) -> None:
    """No gap does: the next epoch counts from 1."""
    log = _log(*FIRST_EPOCH, *NEXT_EPOCH, snapshots=snapshots)
    _, problems = merged({"zk1": log, "zk2": _log(*FIRST_EPOCH[:2], *NEXT_EPOCH, snapshots=(3,))})
    assert problems == ([] if missing is None else [missing])


@pytest.mark.parametrize(
    ("later", "missing"),
    [
        (("set", 1), None),
        (("set", 3), "/1 has version 3 by zxid 0x100000001, and had 0 before"),
        (("create", 0), "/1 is made anew by zxid 0x100000001, and no transaction deleted it"),
    ],
)
def test_txn_logs_that_lack_the_end_of_an_epoch_show_it_by_versions(
    later: tuple[str, int], missing: str | None
) -> None:
    log = _log(*FIRST_EPOCH, *NEXT_EPOCH)
    at = len(FIRST_EPOCH)
    op, version = later
    log.changes[at] = log.changes[at]._replace(op=op, path="/1", version=version)
    _, problems = merged({"zk1": log})
    assert problems == ([] if missing is None else [f"transactions are missing: {missing}"])


SECOND, THIRD = 1 << 32, 2 << 32
STATE = "/brokers/topics/t/partitions/0/state"
MADE = Change(1, 0, 0, 7, "create", STATE, 0, "0")
NEVER = Change(2, 0, 0, 7, "set", STATE, 1, "never")
LATER = Change(SECOND + 2, 0, 0, 7, "set", STATE, 1, "1")


def _deposed(*later: int) -> TxnLog:
    """Of a leader that logged what it could not have committed any more. later: what it logged when it followed."""
    changes = [MADE, NEVER, *([LATER] if LATER.zxid in later else [])]
    return TxnLog(changes, [1, 2, *later], epoch=max((0, *later)) >> 32)


@pytest.mark.parametrize(
    ("deposed", "others"),
    [
        # It did not come back; it was sent a snapshot once it did, and its log stays as it was.
        (_deposed(), [SECOND + 1, SECOND + 2]),
        (_deposed(SECOND + 3), [SECOND + 1, SECOND + 2, SECOND + 3]),
        # The third epoch's leader had all of the second.
        (_deposed(THIRD + 1), [SECOND + 1, SECOND + 2, THIRD + 1]),
    ],
)
def test_txn_log_of_a_deposed_leader_has_what_was_never_committed(deposed: TxnLog, others: list[int]) -> None:
    """What the log of a server that went on into the next epoch lacks, its leader did not have."""
    other = TxnLog([MADE, LATER], [1, *others])
    for logs in ({"zk1": deposed, "zk2": other, "zk3": other}, {"zk2": other, "zk1": deposed}):
        changes, problems = merged(logs)
        assert [one for _, one in changes] == [MADE, LATER]
        assert not problems


def test_txn_log_ends_no_epoch_of_what_the_next_ones_leader_had() -> None:
    """The second is behind by what it was sent as a snapshot; the third is elected by what it alone had logged."""
    set_once = NEVER._replace(data="1")
    later = LATER._replace(version=2)
    behind, leader = TxnLog([MADE, later], [1, SECOND + 1, SECOND + 2], [], [2]), TxnLog([MADE, set_once], [1, 2])
    leader.zxids += [SECOND + 1, SECOND + 2]
    leader.changes.append(later)
    changes, problems = merged({"zk1": TxnLog([MADE], [1], epoch=0), "zk2": behind, "zk3": leader})
    assert [one for _, one in changes] == [MADE, set_once, later]
    assert not problems


def test_txn_log_that_may_have_been_committed_in_a_snapshot_leaves_it_open() -> None:
    """Who went on had a snapshot that reaches as far as the log of who did not, and its leader's log is not there."""
    went_on = TxnLog([MADE, LATER], [1, SECOND + 1, SECOND + 2], [], [2])
    _, problems = merged({"zk1": _deposed(), "zk2": went_on})
    assert "zk2: a snapshot holds transactions up to 0x2, which no log of who began the next epoch has" in problems


@pytest.mark.parametrize("at", [2, SECOND])
def test_txn_log_that_a_snapshot_may_go_beyond_leaves_open_where_an_epoch_ended(at: int) -> None:
    """That of who comes when the epoch has no transaction yet is called by its begin, whatever it holds."""
    late = TxnLog([MADE, LATER], [1, SECOND + 1, SECOND + 2], [], [at])
    _, problems = merged({"zk1": _deposed(), "zk2": late})
    assert (
        f"zk2: a snapshot holds transactions up to 0x{at:x}, which no log of who began the next epoch has" in problems
    )
    leader = TxnLog([MADE, LATER], [1, SECOND + 1, SECOND + 2])
    changes, problems = merged({"zk1": _deposed(), "zk2": late, "zk3": leader})
    assert [one for _, one in changes] == [MADE, LATER] or at == 2
    assert bool(problems) == (at == 2)


def test_txn_log_of_a_deposed_leader_is_cut_where_the_last_epoch_has_no_transaction() -> None:
    """Who was in it says so, and the log of none of them has what the deposed leader alone had."""
    others = {name: TxnLog([MADE], [1], epoch=1) for name in ("zk2", "zk3")}
    changes, problems = merged({"zk1": _deposed(), **others})
    assert [one for _, one in changes] == [MADE]
    assert not problems
    # It is elected, or one that had heard of it.
    for elected in ({"zk1": TxnLog([MADE, NEVER], [1, 2], epoch=1)}, {"zk3": TxnLog([MADE, NEVER], [1, 2], epoch=1)}):
        changes, problems = merged({"zk1": _deposed(), **others, **elected})
        assert [one for _, one in changes] == [MADE, NEVER]


def test_txn_log_of_who_does_not_say_its_epoch_leaves_open_what_it_lacks_in_the_end() -> None:
    """It may have been of an epoch without a transaction, whose leader did not have that."""
    silent = TxnLog([MADE], [1])
    _, problems = merged({"zk1": _deposed(), "zk2": silent})
    assert problems == [
        "zk2: it does not say of which epoch it was last, so that what its log lacks may never have been committed"
    ]
    silent.snapshots.append(2)
    assert merged({"zk1": _deposed(), "zk2": silent})[1] == []
    # A server alone, which is of no epoch.
    assert merged({"zk1": TxnLog([MADE, NEVER], [1, 2], [], [0])})[1] == []


def test_txn_log_that_begins_with_a_later_epoch_shows_what_it_lacks_by_a_znode_that_nothing_made() -> None:
    """Each epoch counts from 1, so that no number is missing."""
    for path, problems in (
        (STATE, [f"transactions are missing: {STATE} is changed by zxid 0x100000002, and no transaction made it"]),
        ("/zookeeper/config", []),
    ):
        log = TxnLog([LATER._replace(path=path)], [SECOND + 1, SECOND + 2])
        assert merged({"zk1": log})[1] == problems
