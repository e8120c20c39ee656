"""Ten minutes at 80 % of what three brokers can do: all of it comes out, and neither memory, descriptors nor CPU grow.

What they can do is measured before and after, for twenty seconds, with the same producer and consumer: the lesser
counts, for a machine may get other work meanwhile. That the brokers get slower shows in their CPU time per record.
HIGHWATER_SOAK_SECONDS sets another length.
"""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.brokers import Cluster, running_cluster
from tests.support.processes import cpu_s, descriptors, resident_kib

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600), pytest.mark.guarantee("soak")]

SECONDS = float(os.environ.get("HIGHWATER_SOAK_SECONDS", "600"))
TOPIC = "soak"
PARTITIONS = 6
_WARM_UP_S = 5.0
_CALIBRATION_S = 20.0
_LOAD = 0.8
_LOAD_MIN = 0.7
_SAMPLE_S = max(5.0, SECONDS / 60)
_UNREAD_MAX = 20_000  # records: far below what retention keeps
_AT_ONCE = 500
_GROWTH_KIB_MAX = 8 * 1024
_DESCRIPTORS_GROWTH_MAX = 20  # segments roll and go, connections come
_CPU_GROWTH_MAX = 2.0


class Load:
    """A producer with acks=all and a consumer that reads all of it, each on a thread of its own."""

    def __init__(self, cluster: Cluster) -> None:
        """As fast as it goes, until `set_rate`; the producer is never more than _UNREAD_MAX ahead of the consumer."""
        self._bootstrap = cluster.bootstrap
        self._rate: float | None = None
        self._since_s = 0.0
        self._sent_since = 0
        self._sent = 0
        self._stop_sending = threading.Event()
        self._stop_reading = threading.Event()
        self.delivered = 0
        self.consumed = 0
        self.errors: list[object] = []
        self._producing = threading.Thread(target=self._produce)
        self._consuming = threading.Thread(target=self._consume)
        self._producing.start()
        self._consuming.start()

    def set_rate(self, records_per_s: float | None) -> None:
        """On average from now on: what a stall held up is made up for. None: as fast as it goes."""
        self._since_s, self._sent_since, self._rate = time.monotonic(), self._sent, records_per_s

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.errors.append(error)
        self.delivered += 1

    def _due(self) -> int:
        """How many records to send now."""
        room = _UNREAD_MAX - (self._sent - self.consumed)
        if self._rate is not None:
            room = min(room, int((time.monotonic() - self._since_s) * self._rate) - (self._sent - self._sent_since))
        return max(0, min(room, _AT_ONCE))

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 2, "enable.idempotence": True})
        value = os.urandom(1000)
        while not self._stop_sending.is_set():
            due = self._due()
            for _ in range(due):
                producer.produce(TOPIC, value, partition=self._sent % PARTITIONS, on_delivery=self._delivered)
                self._sent += 1
            producer.poll(0 if due else 0.005)
        producer.flush(60)

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        while True:
            last_look = self._stop_reading.is_set()
            messages = consumer.consume(1000, timeout=0.5)
            self.errors += [message.error() for message in messages if message.error() is not None]
            self.consumed += len(messages)
            if last_look and not messages:
                break
        consumer.close()

    def stop(self) -> None:
        """Send no more, and read what there is."""
        self._stop_sending.set()
        self._producing.join()
        deadline_s = time.monotonic() + 60
        while self.consumed < self.delivered and time.monotonic() < deadline_s:
            time.sleep(0.05)
        self._stop_reading.set()
        self._consuming.join()


class Sample(NamedTuple):
    """One look at everything. memory (KiB) and descriptors are per broker."""

    at_s: float
    delivered: int
    consumed: int
    memory: dict[int, int]
    descriptors: dict[int, int]
    cpu_s: float
    """Of all brokers since their start."""


def _looked_at(load: Load, pids: dict[int, int]) -> Sample:
    return Sample(
        time.monotonic(),
        load.delivered,
        load.consumed,
        {i: resident_kib(pid) for i, pid in pids.items()},
        {i: descriptors(pid) for i, pid in pids.items()},
        sum(map(cpu_s, pids.values())),
    )


def _per_second(first: Sample, last: Sample) -> float:
    return (last.delivered - first.delivered) / (last.at_s - first.at_s)


def _cpu_per_record(samples: Sequence[Sample]) -> float:
    return (samples[-1].cpu_s - samples[0].cpu_s) / (samples[-1].delivered - samples[0].delivered)


def _growth(samples: Sequence[Sample], values: Sequence[int]) -> float:
    """By how much the values rise from the first sample to the last, along the line that fits them best."""
    times = [sample.at_s for sample in samples]
    return statistics.linear_regression(times, values).slope * (times[-1] - times[0])


def test_high_load_for_long_comes_out_whole_and_grows_neither_memory_nor_descriptors(tmp_path: Path) -> None:
    settings = {
        "log.segment.bytes": str(32 << 20),
        "log.retention.bytes": str(64 << 20),
        "log.retention.check.interval.ms": "1000",
        "log.segment.delete.delay.ms": "1000",
    }
    with running_cluster(tmp_path, settings=settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(20)
        for partition in range(PARTITIONS):
            cluster.wait_state(TOPIC, partition, isr=set(cluster.brokers))
        pids = {i: broker.process.pid for i, broker in cluster.brokers.items() if broker.process is not None}
        load = Load(cluster)
        try:
            time.sleep(_WARM_UP_S)
            began = _looked_at(load, pids)
            time.sleep(_CALIBRATION_S)
            samples = [_looked_at(load, pids)]
            most = _per_second(began, samples[0])
            load.set_rate(_LOAD * most)
            until_s = time.monotonic() + SECONDS
            while time.monotonic() < until_s:
                time.sleep(_SAMPLE_S)
                samples.append(_looked_at(load, pids))
            load.set_rate(None)
            time.sleep(_CALIBRATION_S)
            most_after = _per_second(samples[-1], _looked_at(load, pids))
        finally:
            load.stop()
        held = _per_second(samples[0], samples[-1])
        quarter = max(2, len(samples) // 4)
        cpu_s = [_cpu_per_record(part) for part in (samples[quarter : 2 * quarter], samples[-quarter:])]
        print(
            f"\n{most:.0f} records/s at most, {held:.0f}/s for {SECONDS:.0f} s, {most_after:.0f}/s at most after that"
        )
        print(
            f"{load.delivered} in all, {load.consumed} read; {[round(s * 1e6) for s in cpu_s]} µs of brokers for each"
        )
        for i in pids:
            print(
                f"broker {i}: {[s.memory[i] for s in samples]} KiB, {[s.descriptors[i] for s in samples]} descriptors"
            )
        assert not load.errors, load.errors[:3]
        assert load.consumed == load.delivered
        assert held >= _LOAD_MIN * min(most, most_after), "the load that it can take for twenty seconds"
        assert cpu_s[1] < _CPU_GROWTH_MAX * cpu_s[0], "each record costs more than before"
        for before, after in itertools.pairwise(samples):
            assert after.delivered > before.delivered, f"nothing was acknowledged for {_SAMPLE_S} s"
            assert after.consumed > before.consumed, f"nothing was read for {_SAMPLE_S} s"
        # The start of the load fills caches: the first quarter is no measure.
        settled = samples[len(samples) // 4 :]
        for i in pids:
            assert _growth(settled, [s.memory[i] for s in settled]) < _GROWTH_KIB_MAX, f"broker {i}: memory grows"
            more = _growth(settled, [s.descriptors[i] for s in settled])
            assert more <= _DESCRIPTORS_GROWTH_MAX, f"broker {i}: descriptors grow"
