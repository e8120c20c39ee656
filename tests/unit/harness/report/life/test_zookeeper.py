"""Every version of a partition's state out of ZooKeeper's transaction logs, and what of them is not there."""

from __future__ import annotations

import json

import pytest

from harness.report.life.zookeeper import Version, versions
from tests.support.evidence_files import create_body, set_body, transaction, txn_log
from tests.support.life_files import STATE, changed, created, in_one, run_files, state, zookeeper

pytestmark = pytest.mark.guarantee("V6")

LOG = "evidence/zk1/zookeeper/version-2/log.1"
FIRST = created(1, state(1, 0, [1, 2, 3]), 500)


def read(contents: dict[str, bytes], *nodes: str, p: str = "hw-0") -> tuple[list[Version], list[str]]:
    found = versions(run_files(contents), nodes or ("zk1",), p)
    return found.found, found.problems


def topic(topic_id: str) -> str:
    """The content of a topic's znode."""
    return json.dumps({"version": 3, "topic_id": topic_id, "partitions": {"0": [1, 2, 3]}})


def deleted(zxid: int, path: str) -> bytes:
    return transaction(zxid, 2, len(path).to_bytes(4, "big") + path.encode())


def test_creation_changes_and_deletion_in_the_order_of_their_transactions() -> None:
    found, problems = read(
        zookeeper(
            FIRST,
            created(2, state(9, 9, [9]), path="/brokers/topics/hw/partitions/1/state"),
            changed(3, 1, state(2, 1, [2, 3]), 900),
            transaction(4, 2, len(STATE).to_bytes(4, "big") + STATE.encode(), time_ms=950),
            created(5, state(3, 0, [3]), 990),
        )
    )
    assert not problems
    assert found == [
        Version(1, 0, 1, 0, 500, 1, 0, (1, 2, 3)),
        Version(3, 0, 1, 1, 900, 2, 1, (2, 3)),
        Version(4, 0, 1, 1, 950, 2, 1, (2, 3), True),
        Version(5, 0, 2, 0, 990, 3, 0, (3,)),
    ]


def test_life_of_a_topic_that_was_made_anew_has_the_versions_of_its_own_time() -> None:
    znode = "/brokers/topics/hw"
    lives = zookeeper(
        created(1, topic("one"), path=znode),
        created(2, state(1, 0, [1, 2])),
        changed(3, 1, state(2, 1, [2])),
        deleted(4, STATE),
        deleted(5, znode),
        created(6, topic("two"), path=znode),
        created(7, topic("other"), path="/brokers/topics/hw-of-another"),
        created(8, state(3, 0, [3])),
        # Its partitions are reassigned.
        changed(9, 1, topic("two"), path=znode),
        changed(10, 1, state(3, 1, [3, 1])),
    )
    first, problems = read(lives, p="hw~one-0")
    assert [(one.zxid, one.life, one.deleted) for one in first] == [(2, 1, False), (3, 1, False), (4, 1, True)]
    assert not problems
    second, problems = read(lives, p="hw~two-0")
    assert [(one.zxid, one.life, one.number) for one in second] == [(8, 1, 0), (10, 1, 1)]
    assert not problems
    for p in ("hw~three-0", "hw~other-0", "hw~two-1"):
        assert read(lives, p=p) == ([], [f"No state of {p} stands in ZooKeeper's transaction logs."])
    assert read({}, p="hw~one-0") == ([], ["No transaction log of zk1."])
    spoilt = zookeeper(created(1, "{", path=znode), FIRST)
    assert read(spoilt, p="hw~one-0")[0] == []


def test_change_inside_of_a_multi_and_one_of_another_kind_beside_it() -> None:
    found, problems = read(
        zookeeper(
            in_one(
                1,
                [
                    (13, b"\0\0\0\0"),
                    (1, create_body("/x", STATE)),
                    (1, create_body(STATE, state(1, 0, [1]))),
                    (5, set_body(STATE, state(1, 1, [1]), 1)),
                ],
            )
        )
    )
    assert not problems
    assert [(one.position, one.number, one.leader_epoch) for one in found] == [(2, 0, 0), (3, 1, 1)]


def test_what_one_server_lacks_another_has() -> None:
    second = changed(2, 1, state(2, 1, [2]))
    both = {**zookeeper(FIRST), **zookeeper(FIRST, second, node="zk2")}
    found, problems = read(both, "zk1", "zk2", "zk3")
    assert (len(found), problems) == (2, [])
    assert read(both, "zk3") == ([], ["No transaction log of zk3."])


def test_what_a_deposed_leader_logged_and_nobody_committed_is_no_version() -> None:
    """Its log keeps it, once it follows the next leader, too."""
    second = 1 << 32
    next_epoch = [changed(second | nth, nth, state(2, nth, [2])) for nth in (1, 2)]
    never = changed(2, 1, state(3, 1, [3]))
    others = zookeeper(FIRST, *next_epoch)
    for came_back in ([], next_epoch[1:]):
        found, problems = read({**others, **zookeeper(FIRST, never, *came_back, node="zk2")}, "zk1", "zk2")
        assert [(one.number, one.leader) for one in found] == [(0, 1), (1, 2), (2, 2)]
        assert not problems
    # The next leader had it: then it was committed.
    had = zookeeper(FIRST, never, changed(second | 1, 2, state(2, 2, [2])))
    assert [one.leader for one in read({**had, **zookeeper(FIRST, node="zk2")}, "zk1", "zk2")[0]] == [1, 3, 2]
    # The next epoch has no transaction: who was in it says so.
    alone = {**zookeeper(FIRST, never), **zookeeper(FIRST, node="zk2"), **zookeeper(FIRST, node="zk3")}
    epoch = "evidence/{}/zookeeper/version-2/currentEpoch"
    for of_zk2, leaders in ((b"0", [1, 3]), (b"1\n", [1]), (b"?", [1, 3])):
        files = {**alone, epoch.format("zk1"): b"0", epoch.format("zk2"): of_zk2}
        assert [one.leader for one in read(files, "zk1", "zk2", "zk3")[0]] == leaders


def test_missing_transaction_is_said_with_what_came_after_it() -> None:
    found, problems = read(zookeeper(FIRST, changed(3, 2, state(1, 1, [1]))))
    assert len(found) == 2
    assert problems == ["Transactions of ZooKeeper are missing before zxid 0x3."]
    # An epoch of ZooKeeper counts from 1, or from 0 with its leader's own proposal.
    for first, said in ((1 << 32, []), (1 << 32 | 1, []), (1 << 32 | 2, ["0x100000002"])):
        _, problems = read(zookeeper(FIRST, changed(first, 1, state(1, 1, [1]))))
        assert [text.split()[-1].rstrip(".") for text in problems] == said


def test_torn_last_transaction_is_none_and_damage_is_said() -> None:
    whole = zookeeper(FIRST, changed(2, 1, state(2, 1, [2])))[LOG].rstrip(b"\0")
    assert [one.number for one in read({LOG: whole[:-5]})[0]] == [0]
    flipped = bytearray(whole)
    flipped[-9] ^= 1
    found, problems = read({LOG: bytes(flipped)})
    assert [one.number for one in found] == [0]
    # Nothing shows that the damaged one was the last: it stays a problem.
    assert problems == [
        f"zk1's transaction log log.1 is damaged: the checksum of the transaction before byte {len(whole)} is wrong."
    ]
    ending = bytearray(zookeeper(FIRST, changed(2, 1, state(2, 1, [2])))[LOG])
    ending[16 + 12 + len(FIRST)] ^= 1
    assert ["something is written behind its end" in text for text in read({LOG: bytes(ending)})[1]] == [True]
    ending[16 + 9] = 1
    assert ["runs past the end of the file" in text for text in read({LOG: bytes(ending)})[1]] == [True]
    assert "it begins with b'nope'" in read({LOG: b"nope" + bytes(20)})[1][0]
    assert read({LOG: bytes(64)}) == ([], [])


@pytest.mark.parametrize("data", ["", "{}", "[1]", '{"leader":"x","leader_epoch":1,"isr":[1]}', '{"leader":1,"isr":7}'])
def test_version_that_cannot_be_read_is_said(data: str) -> None:
    found, problems = read(zookeeper(FIRST, changed(2, 1, data)))
    assert len(found) == 1
    assert problems == ["Version 1 of the state in ZooKeeper (zxid 0x2) cannot be read."]


@pytest.mark.parametrize(
    "body",
    [
        b"short",
        transaction(2, 5, len(STATE).to_bytes(4, "big") + STATE.encode()),
        transaction(2, 5, len(STATE).to_bytes(4, "big") + STATE.encode() + (1 << 20).to_bytes(4, "big")),
        transaction(2, 14, (1 << 30).to_bytes(4, "big") + STATE.encode()),
        transaction(2, 14, b"\0\0" + STATE.encode()[:1]),
    ],
)
def test_transaction_that_says_something_else_than_it_should_raises_nothing(body: bytes) -> None:
    read({LOG: txn_log([FIRST, body])})
