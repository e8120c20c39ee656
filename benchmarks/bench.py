"""One system under measurement: its cluster and clients, fresh topics on it, and what is noted of a run.

Decides what is done before and after every run, whatever the row. Must not know what a row measures.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchmarks.clients.java_tools import JavaTools
from benchmarks.clients.lean import Lean
from benchmarks.clients.rdkafka import RdKafka
from benchmarks.measure.guard import Guard
from benchmarks.measure.memory import Ballast
from benchmarks.measure.window import Window
from benchmarks.process import BenchmarkFailed
from benchmarks.systems import BROKERS, REPLICATION_FACTOR, Cluster, Kind
from benchmarks.topics import create_topic, delete_topic

_topic_numbers = itertools.count(1)
_BEYOND_VALUES = 1.1
"""Logs are longer than the values in them."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What all systems are measured with."""

    lean: Path
    kafka_home: Path | None
    ballast: Ballast


class Bench:
    """doubts: what went wrong after a run that counts; the cluster is looked at before the next."""

    def __init__(self, kind: Kind, tools: Tools, cluster: Cluster | None = None) -> None:
        self.kind = kind
        self._tools = tools
        self._cluster = cluster
        self._topic_settings: Mapping[str, str] = {}
        self.doubts: list[str] = []

    def at(self, cluster: Cluster) -> Bench:
        """The same system, measured on another cluster of its kind."""
        return Bench(self.kind, self._tools, cluster)

    def on_disk(self) -> Bench:
        """The same, doubts and all, on topics whose records are on every ISR member's disk before acks=all says so."""
        other = copy(self)
        other._topic_settings = self.kind.on_disk
        return other

    @property
    def cluster(self) -> Cluster:
        """Raises BenchmarkFailed where rows bring clusters of their own."""
        if self._cluster is None:
            raise BenchmarkFailed(f"{self.kind.name}: no cluster is up")
        return self._cluster

    @cached_property
    def lean(self) -> Lean:
        return Lean(self._tools.lean, self.cluster.bootstrap)

    @cached_property
    def java(self) -> JavaTools:
        return JavaTools(self._tools.kafka_home, self.cluster.bootstrap, self.cluster.folder)

    @cached_property
    def rdkafka(self) -> RdKafka:
        return RdKafka(self.cluster.bootstrap)

    @contextmanager
    def topic(self, partitions: int, first: int = BROKERS[0], await_gone: bool = True) -> Iterator[str]:
        """A fresh topic, led by the brokers in turn from `first` on; deleted afterwards, files and all.

        await_gone: whether the end of the files is waited for.
        """
        self.pretouch()
        name = f"row{next(_topic_numbers)}"
        try:
            create_topic(self.cluster, name, partitions, first, self._topic_settings)
            yield name
        except KeyboardInterrupt:
            # All of the cluster goes now.
            raise
        except BaseException:
            self._delete(name, await_gone)
            raise
        self._delete(name, await_gone)

    def _delete(self, topic: str, await_gone: bool) -> None:
        """A failure is no fault of the run before, and must not hide the run's own."""
        try:
            delete_topic(self.cluster, topic, await_gone)
        except Exception as error:
            self.doubts.append(f"{topic} was not deleted: {error!r}")
        self.pretouch()

    def pretouch(self) -> None:
        """Let the host give all memory."""
        self._tools.ballast.pretouch()

    @contextmanager
    def room(self, value_bytes: int, copies: int = REPLICATION_FACTOR) -> Iterator[None]:
        """While it is open there is fresh memory for that many bytes of values in each of so many logs."""
        with self._tools.ballast.room(int(value_bytes * copies * _BEYOND_VALUES)):
            yield

    def window(self) -> Window:
        return Window(self.cluster)

    def guard(self, topic: str, partitions: int) -> Guard:
        return Guard(self.cluster, topic, partitions)
