"""What most runs do: fill a topic, wait for the replicas, and say what it cost; or fill it first and then read it.

The quantities go into `found` before the guard has its say, so that a void run keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

from benchmarks.bench import Bench
from benchmarks.clients.lean import Latencies, LeanResult
from benchmarks.measure import logs
from benchmarks.measure.guard import VoidRun
from benchmarks.measure.window import Used
from benchmarks.rows.base import GB, Found, require_all_taken

Source = Literal["cached", "cold"]
COLD_SHARE = 0.9
"""Of what is read cold so much must have come from the disk."""
_SAMPLES_ABOVE = 10
_QUANTILES = (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))


class Produced(NamedTuple):
    """end_ns: CLOCK_MONOTONIC when the last replica held the last record. used: until then."""

    result: LeanResult
    end_ns: int
    used: Used

    @property
    def seconds(self) -> float:
        """From the first request until the last replica held the last record."""
        return (self.end_ns - self.result.first_send_ns) / 1e9


@contextmanager
def produced(
    bench: Bench, found: Found, partitions: int, value_bytes: int, produce: Callable[[str], LeanResult]
) -> Iterator[Produced]:
    """`produce` fills a fresh topic of that name. What the caller found is kept; then the guard says whether it counts.
    Raises VoidRun.
    """
    with bench.topic(partitions) as topic:
        guard = bench.guard(topic, partitions)
        with bench.room(value_bytes):
            window = bench.window()
            result = produce(topic)
            end_ns = guard.await_replicas()
            used = window.close()
        found.update(used.facts())
        yield Produced(result, end_ns, used)
        require_all_taken(result)
        guard.check(result.records)


@dataclass(frozen=True, slots=True)
class Filled:
    """A topic to be read."""

    topic: str
    source: Source

    def check_source(self, used: Used, taken_bytes: int) -> None:
        """Cold bytes came from the disk. Raises VoidRun."""
        if self.source == "cold" and used.read_bytes < COLD_SHARE * taken_bytes:
            raise VoidRun(
                f"only {used.read_bytes / 1e6:.0f} MB came from the disk, {taken_bytes / 1e6:.0f} MB were consumed"
            )


@contextmanager
def filled_topic(
    bench: Bench, partitions: int, records: int, record_bytes: int, batch_bytes: int, source: Source
) -> Iterator[Filled]:
    """A topic that every replica holds, in the page cache or not; checked when it was read. Raises VoidRun."""
    with bench.topic(partitions) as topic:
        guard = bench.guard(topic, partitions)
        with bench.room(records * record_bytes):
            require_all_taken(
                bench.lean.produce(topic, acks=-1, record_bytes=record_bytes, batch_bytes=batch_bytes, records=records)
            )
            guard.await_replicas()
        if source == "cold":
            logs.drop_from_cache([broker.data for broker in bench.cluster.brokers.values()], topic)
        # What was forgotten is free now, and the host takes it back; what is read cold needs room for one copy.
        bench.pretouch()
        with bench.room(records * record_bytes if source == "cold" else 0, copies=1):
            yield Filled(topic, source)
        guard.check(records)


def throughput(records: int, record_bytes: int, seconds: float, used: Used, client_cpu_s: float) -> Found:
    """The quantities of a row without a limit on its rate."""
    return {
        "mb_per_s": records * record_bytes / seconds / 1e6,
        "krecords_per_s": records / seconds / 1e3,
        "cpu_s_per_gb": used.broker_cpu_s / (records * record_bytes / GB),
        "client_cores": client_cpu_s / seconds,
    }


def per_request(used: Used, requests: int) -> Found:
    """Nothing where the client does not count its requests."""
    if requests <= 0:
        return {}
    return {"cpu_ms_per_1000_requests": used.broker_cpu_s * 1e3 / (requests / 1e3)}


def percentiles(of: Latencies, unit: Literal["us", "ms"]) -> Found:
    """Those with at least ten samples above them, and the longest."""
    scale = 1.0 if unit == "us" else 1e3
    figures = {
        f"{name}_{unit}": float(getattr(of, name)) / scale
        for name, quantile in _QUANTILES
        if of.count * (1 - quantile) >= _SAMPLES_ABOVE - 1e-6
    }
    return {**figures, f"max_{unit}": of.max / scale} if of.count else figures
