"""Lives of runs without event logs, as of Apache Kafka: segments, epoch files, ZooKeeper and clients alone."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report.life.life import Life, NoSuchPlace, Unreadable, life
from tests.support.life_files import (
    changed,
    checkpoint,
    created,
    ended,
    history,
    replica,
    run,
    run_files,
    sent,
    state,
    zookeeper,
)

pytestmark = pytest.mark.guarantee("V6")

ZOOKEEPER = zookeeper(
    created(1, state(1, 0, [1, 2, 3]), 100),
    changed(2, 1, state(2, 1, [2, 3]), 3000),
    changed(3, 2, state(2, 1, [1, 2, 3]), 4000),
)
NO_EVENTS = "No event logs (kafka writes none): when each replica appended, copied, or cut the record is not known."


class Clients:
    """Lines of a history. Times in seconds."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def ask(self, at_s: float, f: str, answer: dict[str, Any] | None, **asked: Any) -> Clients:
        """One operation; answer: what its completion says, which comes 10 ms later, None where none came."""
        common: dict[str, Any] = {
            "kind": "client",
            "process": 3,
            "f": f,
            "topic": "hw",
            "partition": 0,
            "node": "n1",
            "phase": "main",
        }
        index = len(self.lines)
        self.lines.append({**common, "type": "invoke", "index": index, "time_ns": int(at_s * 1e9), **asked})
        if answer is not None:
            done: dict[str, Any] = {
                "type": "ok",
                "index": index + 1,
                "invoke": index,
                "time_ns": int((at_s + 0.01) * 1e9),
            }
            own: dict[str, Any] = {name: asked[name] for name in ("topic", "partition", "node") if name in asked}
            self.lines.append({**common, **own, **done, **answer})
        return self

    def send(self, at_s: float, value: int, base: int, **asked: Any) -> Clients:
        return self.ask(at_s, "send", {"base_offset": base}, values=[value], **{"acks": -1, **asked})

    def poll(self, at_s: float, first: int, following: int, *shown: tuple[int, int], **asked: Any) -> Clients:
        marks: dict[str, Any] = {name: asked.pop(name) for name in ("hw", "lso", "log_start") if name in asked}
        records = [{"offset": offset, "value": value, "epoch": 0, "intact": True} for offset, value in shown]
        answer: dict[str, Any] = {"next_position": following, "records": records, **marks}
        return self.ask(at_s, "poll", answer, position=first, **{"isolation": 0, "reader": "wire", **asked})

    def deleted(self, at_s: float, before: int, **answer: Any) -> Clients:
        return self.ask(at_s, "delete_records", answer, before=before)


def told(clients: Clients, *parts: dict[str, bytes], offset: int = 1, p: str = "hw-0", **changes: Any) -> Life:
    contents = history(*clients.lines)
    for part in parts:
        contents |= part
    return life(run_files(contents), run(**changes), p, offset, {})


def on_all(*batches: bytes, epochs: str | None = "0 0") -> dict[str, bytes]:
    return {path: data for n in (1, 2, 3) for path, data in replica(f"n{n}", *batches, epochs=epochs).items()}


def texts(found: Life) -> list[str]:
    return [step.text for step in found.steps]


def test_record_that_another_took_the_place_of() -> None:
    clients = Clients().send(1, 17, 1).send(5, 99, 1).poll(6, 0, 2, (0, 16), (1, 99), hw=2)
    found = told(clients, on_all(sent(0, 0, 16), sent(1, 1, 99), epochs="0 0\n1 1"), ZOOKEEPER)
    assert found.values == (17, 99)
    assert found.fates == (
        "Value 17: acknowledged (acks=all), never read; no file that was copied holds it: value 99 stands there.",
        "Value 99: acknowledged (acks=all), read once, first at 6.010 s; it is in the files of n1, n2 and n3 "
        "(leader epoch 1, which was n2's by ZooKeeper).",
    )
    versions = [step for step in found.steps if step.lanes == ("ZooKeeper",)]
    assert [step.at_s for step in versions] == [0.1, 3.0, 4.0]
    assert "leader n2, leader epoch 1, ISR n2 and n3 (n1 left)" in versions[1].text
    assert [step.at_s for step in found.steps] == sorted(step.at_s for step in found.steps)
    assert found.missing == (NO_EVENTS,)
    assert found.checkpoints[0].text == "n1: leader epoch 1, from offset 1, the last."


def test_record_that_was_cut_away_and_never_read() -> None:
    found = told(Clients().send(1, 17, 1), on_all(sent(0, 0, 16)), ZOOKEEPER)
    assert found.fates == (
        "Value 17: acknowledged (acks=all), never read; no file that was copied holds it: every log ends before it.",
    )
    assert [one.kind for one in found.holdings] == ["beyond"] * 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "sent, and never acknowledged"),
        ({"type": "info", "error": "timeout"}, "sent, and never acknowledged"),
        ({"type": "fail", "error": "NOT_ENOUGH_REPLICAS"}, "refused (NOT_ENOUGH_REPLICAS)"),
        ({"base_offset": 4}, "acknowledged at offset 4 (acks=all)"),
        ({}, "acknowledged (acks=all)"),
    ],
)
def test_what_its_client_was_told(answer: dict[str, Any] | None, said: str) -> None:
    clients = Clients().ask(1, "send", answer, values=[17], acks=-1)
    found = told(clients, on_all(sent(0, 0, 16), sent(1, 0, 17)), ZOOKEEPER)
    assert found.fates[0].startswith(f"Value 17: {said}, never read; it is in the files of n1, n2 and n3")


def test_send_without_acknowledgements_and_one_that_is_not_in_the_history() -> None:
    clients = Clients().ask(1, "send", {}, values=[17], acks=0)
    assert "sent with acks=0, which nobody acknowledges" in told(clients, on_all(sent(1, 0, 17)), ZOOKEEPER).fates[0]
    other = told(Clients().send(1, 16, 0), on_all(sent(1, 0, 17)), ZOOKEEPER)
    assert "nobody's send of it is in the history" in other.fates[0]


def test_first_answer_with_a_higher_watermark_says_that_it_was_committed_unless_an_acknowledgement_did() -> None:
    files = (on_all(sent(0, 0, 16), sent(1, 0, 17)), ZOOKEEPER)
    unknown = Clients().ask(1, "send", None, values=[17], acks=-1).poll(2, 0, 1, (0, 16), hw=1)
    unknown.poll(3, 0, 1, (0, 16), hw=2, process=8).poll(4, 0, 1, (0, 16), hw=2)
    said = [step for step in told(unknown, *files).steps if step.kind == "commit"]
    assert [(step.at_s, step.text) for step in said] == [
        (3.01, "n1's answer to client 8 gave the high watermark 2: what it had at this offset was committed.")
    ]
    acknowledged = Clients().send(1, 17, 1).poll(3, 0, 1, (0, 16), hw=2)
    assert not [step for step in told(acknowledged, *files).steps if step.kind == "commit"]


def test_record_that_was_deleted_on_request() -> None:
    clients = Clients().send(1, 17, 1).deleted(2, 1, low_watermark=1).deleted(3, 2, low_watermark=2)
    clients.deleted(3.5, 3, low_watermark=3).deleted(4, 9, type="fail", error="OFFSET_OUT_OF_RANGE")
    clients.poll(5, 2, 2, hw=2, log_start=2)
    starts = {f"evidence/n{n}/data/log-start-offset-checkpoint": checkpoint("hw 0 2") for n in (1, 2, 3)}
    found = told(clients, on_all(sent(0, 0, 16), sent(1, 0, 17)), starts, ZOOKEEPER)
    assert found.fates == (
        "Value 17: acknowledged (acks=all), never read; no file that was copied holds it: every log begins after it.",
    )
    assert "n1: value 17 at offset 1, of leader epoch 0; its log start is 2, so that it is shown to nobody." in [
        one.text for one in found.holdings
    ]
    said = texts(found)
    assert "Client 3 asked to delete what lies below offset 2 of hw-0 at n1: low watermark 2." in said
    # Not one that left it alone, one that was refused, or one of what was deleted already.
    assert sum("asked to delete" in text for text in said) == 1
    # A log start that is above it says so where no deletion does.
    mark = "n1's answer to client 3 gave the log start 2: what lay below is shown no more."
    assert mark not in said
    retained = Clients().send(1, 17, 1).deleted(4, 2, type="info", error="timeout").poll(5, 2, 2, log_start=2)
    later = texts(told(retained, on_all(sent(0, 0, 16), sent(1, 0, 17)), starts, ZOOKEEPER))
    assert mark in later
    assert "Client 3 asked to delete what lies below offset 2 of hw-0 at n1: no answer (timeout)." in later


def test_record_that_a_cleaning_took() -> None:
    topic = {"name": "hw", "partitions": 1, "config": {"cleanup.policy": "compact"}}
    found = told(Clients().send(1, 17, 1), on_all(sent(0, 0, 16), sent(2, 0, 18)), ZOOKEEPER, topic=topic)
    assert found.fates[0].endswith("no file that was copied holds it: compaction took it away.")
    keyed = Clients().send(1, 17, 1, keys=[4], tombstones=[False]).send(2, 18, 2, keys=[5], tombstones=[False])

    def end(clients: Clients) -> str:
        found = told(clients, on_all(sent(0, 0, 16), sent(2, 0, 18)), ZOOKEEPER, topic=topic)
        return found.fates[0].rpartition("compaction took it away")[2]

    assert end(keyed) == ", though no later one of its key, 4, was acknowledged."
    keyed.send(3, 30, 9, keys=[4], tombstones=[False]).send(4, 20, 3, keys=[4], tombstones=[True])
    keyed.send(5, 15, 0, keys=[4], tombstones=[False]).ask(6, "send", None, values=[31], keys=[4], acks=-1)
    assert end(keyed) == ", for value 20 at offset 3 is a later one of its key, 4."
    tombstone = Clients().send(1, 17, 1, keys=[4], tombstones=[True])
    assert end(tombstone) == ", as it does in time with a tombstone (of key 4)."
    plain = told(Clients().send(1, 17, 1), on_all(sent(0, 0, 16), sent(2, 0, 18)), ZOOKEEPER)
    assert plain.fates[0].endswith("no file that was copied holds it.")


def transaction(*, commit: bool, answer: str) -> Clients:
    none: dict[str, Any] = {"topic": None, "partition": None}
    clients = Clients().ask(1, "add_partitions", {}, txn=7, partitions=["hw-0"], **none)
    clients.ask(1.1, "add_partitions", {}, txn=8, partitions=["hw-0"], **none)
    clients.send(2, 17, 1, txn=7)
    clients.ask(3, "end_txn", {"type": answer}, txn=7, commit=commit, **none)
    return clients.ask(3.1, "end_txn", {}, txn=8, commit=True, **none)


@pytest.mark.parametrize(
    ("commit", "answer", "said"),
    [
        (True, "ok", "transaction 7 committed"),
        (True, "info", "transaction 7 perhaps committed, perhaps not"),
        (True, "fail", "transaction 7 not committed"),
        (False, "ok", "transaction 7 aborted, read once (never under read_committed), first at 5.010 s"),
        (False, "info", "transaction 7 not committed"),
    ],
)
def test_record_of_a_transaction(commit: bool, answer: str, said: str) -> None:
    clients = transaction(commit=commit, answer=answer).poll(4, 0, 1, (0, 16), hw=3, lso=1, isolation=1)
    clients.poll(5, 1, 3, (1, 17), hw=3, lso=3)
    log = on_all(sent(0, 0, 16), sent(1, 0, 17, producer=5), ended(2, 0, 5, committed=commit))
    lines = [
        {"e": "append", "m": 3_100_000_000, "p": "hw-0", "le": 0, "role": role, "base": base, "last": 2}
        for role, base in (("leader", 2), ("follower", 2))
    ]
    log["evidence/n2/events.jsonl"] = history(*lines)["history.jsonl"]
    found = told(clients, log, ZOOKEEPER)
    assert said in found.fates[0]
    steps = texts(found)
    assert f"Client 3 asked to {'commit' if commit else 'abort'} transaction 7 at n1" in " ".join(steps)
    assert not any("transaction 8" in text for text in steps)
    assert "n1's answer to client 3 gave the last stable offset 3" in " ".join(steps)
    markers = [text for text in steps if "the marker of its transaction" in text]
    assert markers == ["n2 appended the marker of its transaction, offset 2, in leader epoch 0."]
    end = "committed" if commit else "aborted"
    assert found.holdings[0].text.endswith(f"{end} by the marker at offset 2.")


def test_poll_that_passed_over_an_aborted_record_says_up_to_where_it_was_stable() -> None:
    clients = transaction(commit=False, answer="ok").poll(5, 1, 3, hw=3, lso=3, isolation=1)
    log = on_all(sent(0, 0, 16), sent(1, 0, 17, producer=5), ended(2, 0, 5, committed=False))
    assert (
        "n1 passed over offsets 1 to 2 of hw-0 for client 3, without a record. Its high watermark was 3, its last "
        "stable offset 3 (read_committed)." in texts(told(clients, log, ZOOKEEPER))
    )


def test_marker_has_a_life_of_files_and_zookeeper() -> None:
    log = on_all(sent(0, 0, 16), ended(1, 1, 5, committed=True))
    found = told(Clients().send(1, 16, 0), log, ZOOKEEPER)
    assert found.title == "hw-0, offset 1: a transaction's marker"
    assert found.fates == (
        "A transaction's marker stands there, in the files of n1, n2 and n3 (leader epoch 1, which was n2's by "
        "ZooKeeper).",
    )
    assert [step.at_s for step in found.steps] == [3.0, 4.0]
    assert not found.is_empty


def test_partition_that_clients_never_asked_for_is_told_from_files() -> None:
    path = "/brokers/topics/__x/partitions/3/state"
    log = {"evidence/n1/data/__x-3/00000000000000000000.log": sent(0, 4, 1)}
    znode = zookeeper(created(1, state(2, 4, [2]), 7000, path))
    found = told(Clients(), log, znode, p="__x-3", offset=0)
    assert "n1 (leader epoch 4, which was n2's by ZooKeeper)" in found.fates[0]
    assert [step.at_s for step in found.steps] == [7.0]
    with pytest.raises(NoSuchPlace, match=r"'hw-3': not a partition of this run, which has hw-0, and __x-3"):
        told(Clients(), log, znode, p="hw-3")


def test_replicas_that_disagree_on_the_leader_epoch_are_named() -> None:
    parts = {
        **replica("n1", sent(0, 0, 16), sent(1, 1, 17), epochs="0 0\n1 1"),
        **replica("n2", sent(0, 0, 16), sent(1, 0, 17), epochs="0 0"),
        **replica("n3", sent(0, 0, 16), sent(1, 1, 17), epochs="0 0"),
    }
    found = told(Clients().send(1, 17, 1), parts, ZOOKEEPER)
    assert found.disagreements == (
        "The replicas disagree: the offset is of leader epoch 0 by n2 and n3 and 1 by n1, "
        "by their leader-epoch-checkpoint.",
        "The replicas disagree: the offset is of leader epoch 0 by n2 and 1 by n1 and n3, by the batches themselves.",
        "n3's leader-epoch-checkpoint says leader epoch 0, and its batch is of 1.",
    )
    assert told(Clients().send(1, 17, 1), on_all(sent(0, 0, 16), sent(1, 0, 17)), ZOOKEEPER).disagreements == ()
    # A replica whose log ends before the offset says nothing of it.
    shorter = {**parts, **replica("n2", sent(0, 0, 16), epochs="0 0"), **replica("n3", epochs="0 0")}
    assert told(Clients().send(1, 17, 1), shorter, ZOOKEEPER).disagreements == ()


def test_what_was_not_seen_is_said() -> None:
    clients = Clients().send(1, 17, 1)
    two = {**replica("n1", sent(0, 0, 16), sent(1, 0, 17), epochs="0 0"), **replica("n2", sent(0, 0, 16), epochs="0 0")}
    found = told(clients, two, {"evidence/n3.part/events.jsonl": b""})
    assert found.missing == (
        NO_EVENTS,
        "n3's evidence is missing: what it held, and what it did, is not known. What there is of it, in n3.part, is "
        "not whole, and is not told.",
        "No transaction log of zk1.",
    )
    assert found.fates[0].endswith("it is in the files of n1 (leader epoch 0), and not in those of n2.")
    nothing = told(clients)
    assert nothing.fates[0].endswith("no replica's files are there to hold it.")
    logs = told(clients, two, system={"kind": "highwater", "event_log": True})
    assert "No event log of n1: No such file or directory." in logs.missing
    one = run(finished=False, aborted="Ctrl-C")
    one["nodes"] = [node for node in one["nodes"] if node["role"] == "broker"]
    other = life(run_files(history(*clients.lines) | two), one, "hw-0", 1, {})
    assert other.missing[0] == "The run was not finished (Ctrl-C): what came later is not told."
    assert "No ZooKeeper node is in run.json" in other.missing[-1]
    imported = life(run_files(history(*clients.lines)), {"topic": {"name": "hw", "partitions": 1}}, "hw-0", 1, {})
    assert imported.missing == ("run.json names no broker: nothing is known but what clients saw.",)
    assert imported.values == (17,)


def test_what_came_after_the_evidence_was_copied_only_clients_tell() -> None:
    clients = Clients().send(1, 17, 1)
    files = (on_all(sent(0, 0, 16), sent(1, 0, 17)), ZOOKEEPER)
    for node, at_s in (("n2", 7.5), ("n1", 7)):
        line = {"type": "info", "f": "evidence", "kind": "harness", "node": node, "time_ns": int(at_s * 1e9)}
        clients.lines.append({**line, "index": len(clients.lines)})
    assert told(clients, *files).missing == (NO_EVENTS,)
    later = told(clients.poll(8, 1, 2, (1, 17), hw=2), *files)
    assert later.missing == (
        "Files and logs of the nodes were copied at 7.000 s: what came later only clients tell.",
        NO_EVENTS,
    )


def test_place_where_nothing_stood_is_empty_and_a_history_that_makes_no_sense_is_refused() -> None:
    found = told(Clients().send(1, 17, 1), on_all(sent(0, 0, 16), sent(1, 0, 17)), ZOOKEEPER, offset=9)
    assert found.is_empty
    assert found.missing[0] == "Nothing that was recorded stood at offset 9 of hw-0."
    broken = {"history.jsonl": b'{"partition":0,"topic":"hw","f":"send","records":7}\n'}
    with pytest.raises(Unreadable, match="cannot be made sense of: TypeError"):
        life(run_files(broken), run(), "hw-0", 1, {})


def test_version_stands_before_what_a_broker_told_of_it_and_nothing_is_told_twice() -> None:
    lines = [
        {"e": "become_leader", "m": 90_000_000, "p": "hw-0", "le": 0, "pe": 0, "leo": 0},
        {"e": "election", "m": 95_000_000, "p": "hw-0", "le": 0, "pe": 0, "leader": 1, "reason": "new-topic"},
        {"e": "append", "m": 1_000_000_000, "p": "hw-0", "le": 0, "role": "leader", "base": 1, "last": 1},
        {"e": "isr_commit", "m": 4_001_000_000, "p": "hw-0", "le": 1, "pe": 2, "isr": [1, 2, 3]},
        {"e": "election", "m": 3_001_000_000, "p": "hw-0", "le": 1, "pe": 1, "leader": 2, "reason": "offline"},
    ]
    events = {"evidence/n1/events.jsonl": history(*lines)["history.jsonl"]}
    log = on_all(sent(0, 0, 16), sent(1, 0, 17))
    system = {"kind": "highwater", "event_log": True}
    clients = Clients().send(1, 17, 1, acks=1).poll(5, 1, 2, (1, 17), hw=2)
    both = told(clients, log, events, ZOOKEEPER, system=system)
    said = texts(both)
    # Of one instant, by the broker's clock: ZooKeeper's own says 10 ms later.
    assert [step.at_s for step in both.steps[:2]] == [0.09, 0.09]
    assert said[0].startswith("Version 0 of the state of hw-0 (zxid 0x1): leader n1, leader epoch 0")
    assert said[1].endswith("not beyond this offset. n1, the controller, chose n1 (new-topic).")
    # The reason is told with the leader that took over; of one that did not say so, with the version.
    assert [sum(f"chose {node} (" in text for text in said) for node in ("n1", "n2")] == [1, 1]
    assert "Version 1 of the state of hw-0 (zxid 0x2): leader n2, leader epoch 1, ISR n2 and n3 (n1 left). n1, the" in (
        " ".join(said)
    )
    assert not any("The committed ISR is" in text for text in said)
    alone = texts(told(clients, log, events, system=system))
    assert "The committed ISR is n1, n2 and n3 in epoch 1, says n1." in alone


def test_life_of_a_record_is_of_one_life_of_a_topic_that_is_made_anew() -> None:
    clients = (
        Clients()
        .send(1, 11, 0, topic="t", topic_id="A")
        .poll(2, 0, 1, (0, 11), topic="t", topic_id="A", hw=1)
        # Acknowledged to who knew the first life, and read in the second.
        .send(3, 21, 0, topic="t", topic_id="A")
        .poll(4, 0, 1, (0, 21), topic="t", topic_id="B", hw=1)
    )
    path = "/brokers/topics/t"
    znodes = zookeeper(
        created(1, '{"topic_id": "A"}', 100, path),
        created(2, state(1, 0, [1]), 200, f"{path}/partitions/0/state"),
        created(3, '{"topic_id": "B"}', 2500, path),
        created(4, state(2, 0, [2, 3]), 2600, f"{path}/partitions/0/state"),
    )
    second = told(clients, znodes, offset=0, p="t~B-0")
    assert second.values == (21,)
    assert [step.kind for step in second.steps if step.kind in ("send", "read")] == ["send", "read"]
    versions = [text for text in texts(second) if text.startswith("Version ")]
    assert len(versions) == 1
    assert versions[0].startswith("Version 0 of the state of t~B-0 (zxid 0x4): leader n2, leader epoch 0")
    with pytest.raises(NoSuchPlace, match="name one of its lives, t~A-N and t~B-N"):
        told(clients, offset=0, p="t-0", remade_topics=["t"])


def test_files_are_of_the_life_that_their_metadata_name() -> None:
    own = {path.replace("hw-0", "t-0"): data for path, data in replica("n1", sent(0, 0, 21)).items()}
    named = {"evidence/n1/data/t-0/partition.metadata": b"version: 0\ntopic_id: B"}
    clients = Clients().poll(4, 0, 1, (0, 21), topic="t", topic_id="B").poll(5, 0, 1, (0, 11), topic="t", topic_id="A")
    there, other = told(clients, own, named, offset=0, p="t~B-0"), told(clients, own, named, offset=0, p="t~A-0")
    assert [one.kind for one in there.holdings if one.node == "n1"] == ["record"]
    assert [one.kind for one in other.holdings if one.node == "n1"] == ["missing"]
