"""What must hold of transactions once all has healed: all or nothing, on every replica, as their producers know it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from broker.log.log import PartitionLog
from broker.wire.control_records import marker_of
from broker.wire.record_batch import BatchHeader, iter_batches
from broker.wire.records import decode_records
from tests.support.committed_reader import read_committed
from tests.support.simulation.cluster import Cluster
from tests.support.simulation.transactions import TOPIC, Told, TransactionalProducer

_READ_BYTES = 1 << 20

Outcomes = dict[tuple[int, str], bool]
"""By (partition, value): whether it was committed."""


def _batches(log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    """All that a log has, segment by segment."""
    offset = 0
    while offset < log.log_end_offset:
        view = log.read_bytes(offset, _READ_BYTES, log.log_end_offset, True)
        for position, header in iter_batches(view, verify_crc=True):
            yield header, view[position : position + header.size]
            offset = header.last_offset + 1


def _outcomes_in(cluster: Cluster, partition: int, broker: int) -> Outcomes:
    """By each producer's next marker. Raises Violation where a value is there twice, or none ends its transaction."""
    process, fail = cluster.brokers[broker], cluster.observer.fail
    assert process is not None
    assert process.manager is not None
    log = process.manager.replicas.by_partition[TOPIC, partition].log
    assert isinstance(log, PartitionLog)
    open_: dict[int, list[str]] = defaultdict(list)
    found: Outcomes = {}
    for header, batch in _batches(log):
        end = marker_of(header, batch) if header.is_control else None
        if end is not None:
            for value in open_.pop(header.producer_id, ()):
                found[partition, value] = end.committed
            continue
        for record in decode_records(batch):
            value = (record.value or b"").decode()
            if (partition, value) in found or value in open_[header.producer_id]:
                fail(f"{TOPIC}-{partition}: b{broker} has {value} twice")
            open_[header.producer_id].append(value)
    if any(open_.values()):
        fail(f"{TOPIC}-{partition}: b{broker} has open transactions: {dict(open_)}")
    stable = log.last_stable_offset(log.log_end_offset)
    if stable != log.log_end_offset:
        fail(f"{TOPIC}-{partition}: b{broker} is stable up to {stable} of {log.log_end_offset}")
    shown = {value.decode() for _, value in read_committed(log, 0, _READ_BYTES)}
    if shown != {value for (_, value), committed in found.items() if committed}:
        fail(f"{TOPIC}-{partition}: readers of committed records get {shown} of b{broker}, outcomes are {found}")
    return found


def _outcomes(cluster: Cluster) -> Outcomes:
    """Of all partitions, the same on every replica."""
    observer = cluster.observer
    found: Outcomes = {}
    for (topic, partition), state in sorted(observer.states.items()):
        if topic == TOPIC:
            on = {broker: _outcomes_in(cluster, partition, broker) for broker in state["isr"]}
            if any(outcomes != on[state["leader"]] for outcomes in on.values()):
                observer.fail(f"{TOPIC}-{partition}: outcomes by broker: {on}")
            found |= on[state["leader"]]
    return found


def judge_transactions(cluster: Cluster, told: Told, producers: list[TransactionalProducer]) -> None:
    """All that was acknowledged is so. Raises Violation."""
    fail, found = cluster.observer.fail, _outcomes(cluster)
    ends: dict[tuple[str, int], set[bool]] = defaultdict(set)
    for (_, value), committed in found.items():
        name, serial, _ = value.split(".")
        ends[name, int(serial)].add(committed)
    for which, how in ends.items():
        if len(how) > 1 or how != {told.decided.get(which, next(iter(how)))}:
            fail(f"transaction {which} has ended with {how}, its producer was told {told.decided.get(which)}")
    for which, committed in told.decided.items():
        for one in told.acknowledged[which]:
            if found.get(one) is not committed:
                fail(f"{one} was acknowledged, committed: {committed}, and is {found.get(one)}")
    for producer in producers:
        sure = [serial for name, serial in told.offsets if name == producer.name and told.decided.get((name, serial))]
        offset = producer.group_offset
        if offset < max(sure, default=-1) or told.decided.get((producer.name, offset)) is False:
            fail(f"group {producer.name} is at {offset}, transactions with offsets were committed: {sorted(sure)}")
