"""The in-memory cluster of `memory_cluster` on the real log store: files, recovery and snapshots are real."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from broker.log.environment import Environment
from broker.log.log_manager import LogManager
from broker.model.ids import TopicPartition
from broker.wire.chunks import Chunk, FileSlice
from broker.wire.errors import ErrorCode
from broker.wire.messages.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaTopicState
from broker.wire.record_batch import read_header
from broker.wire.records import decode_records
from tests.support.chunks import chunk_view
from tests.support.memory_cluster import MemoryCluster, produced
from tests.support.memory_node import TOPIC


class DiskCluster(MemoryCluster):
    """Every broker's log lies in a folder of its own; a killed broker's store is dropped as it is."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._folder = folder
        self._stores: dict[int, LogManager] = {}
        self.second_dirs: dict[int, str] = {}
        """Names of further log dirs, for starts from now on."""
        self.full_sockets: set[tuple[int, int]] = set()
        """(from, to) of links whose answers wait at the sender: their files are read when they are delivered."""
        super().__init__(**options)

    def start(self, i: int, tell: bool = True) -> None:
        environment = Environment(self.loop.now_ms, self.loop.call_later, wall_ms=lambda: self.wall_ms)
        dirs = [str(self._folder / name) for name in (str(i), self.second_dirs.get(i)) if name is not None]
        self._stores[i] = LogManager(dirs, environment, defaults={"segment.bytes": "2000"})
        self.nodes[i].store = self._stores[i]  # type: ignore[assignment]
        super().start(i, tell)

    def store_of(self, i: int) -> LogManager:
        return self._stores[i]

    def kill(self, i: int) -> None:
        super().kill(i)
        self._stores.pop(i).close(clean=False)

    def stop(self, i: int) -> None:
        self.nodes[i].up.shutdown(clean=True)
        super().kill(i)
        self._stores.pop(i).close(clean=True)

    def in_flight(self, source: int, target: int, chunks: Sequence[Chunk]) -> Callable[[], bytes]:
        if (source, target) not in self.full_sockets:
            return super().in_flight(source, target, chunks)
        waiting: list[Chunk] = [
            chunk._replace(fd=os.dup(chunk.fd)) if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks
        ]

        def read() -> bytes:
            data = b"".join(bytes(chunk_view(chunk)) for chunk in waiting)
            for chunk in waiting:
                if isinstance(chunk, FileSlice):
                    os.close(chunk.fd)
            return data

        return read

    def give_way_and_come_back(self, i: int) -> None:
        """Broker i's session ends, whoever leads then takes a record, and i is restarted in good order."""
        self.expire(i)
        self.settle()
        slot = self.produce(self.state.leader, "after")
        self.settle()
        answer = produced(slot)
        assert answer is not None
        assert answer.error == ErrorCode.NONE
        self.stop(i)
        self.start(i)
        self.advance(3000)

    def dir_of(self, i: int) -> Path:
        """Broker i's log dir, the first one."""
        return self._folder / str(i)

    def folder_of(self, i: int) -> Path:
        """Where broker i keeps the partition."""
        return self._folder / str(i) / f"{TOPIC}-0"

    def stop_replica(self, i: int) -> StopReplicaRequest:
        """The controller's word to delete the replica."""
        state = StopReplicaPartitionState(0, -2, True)
        topics = [StopReplicaTopicState(TOPIC, [state])]
        return StopReplicaRequest(9, False, self.controller_epoch, self.registered[i], topics)

    def values(self, i: int) -> list[str]:
        log = self._stores[i].logs()[TopicPartition(TOPIC, 0)]
        found: list[str] = []
        position = log.log_start_offset
        while position < log.log_end_offset:
            view = log.read_bytes(position, 1 << 20, log.log_end_offset, True)
            start = 0
            while start < len(view):
                header = read_header(view, start)
                assert header.base_offset == position
                for record in decode_records(view[start : start + header.size], verify_crc=True):
                    assert record.value is not None
                    found.append(record.value.decode())
                position = header.last_offset + 1
                start += header.size
        return found

    def close(self) -> None:
        for store in self._stores.values():
            store.close(clean=False)
