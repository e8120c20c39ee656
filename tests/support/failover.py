"""A retrying client that measures how long acks=all writes fail after a broker was killed.

It knows all addresses, asks any broker for the leader, writes one record, and starts over at every failure; it waits
a few milliseconds between attempts. Run as a script it kills `--kills` times and prints the distribution:
`python -m tests.support.failover --victim leader --kills 50`.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from broker.wire.errors import ErrorCode
from broker.wire.headers import decode_response_header, encode_request_header
from broker.wire.messages import metadata, produce
from broker.wire.records import NewRecord, encode_batch
from tests.support.brokers import Cluster, running_cluster, wait_until

VICTIMS = ("leader", "controller", "both")
SETTINGS = {"zookeeper.session.timeout.ms": "18000", "min.insync.replicas": "2"}
_PRODUCE, _METADATA = 0, 3
_PRODUCE_VERSION, _METADATA_VERSION = 9, 9
_SOCKET_S = 2.0
_PAUSE_S = 0.005
_GIVE_UP_S = 40.0
_LENGTH = struct.Struct(">i")


class RetryingClient:
    """One connection per broker, dropped at the first error."""

    def __init__(self, cluster: Cluster) -> None:
        self._addresses = {id_: (broker.host, broker.port) for id_, broker in cluster.brokers.items()}
        self._sockets: dict[int, socket.socket] = {}
        self._correlation = 0
        self.refusals: set[int | None] = set()
        """Errors that its writes were answered with; None for those that nobody answered."""

    def close(self) -> None:
        for id_ in list(self._sockets):
            self._drop(id_)

    def _drop(self, id_: int) -> None:
        known = self._sockets.pop(id_, None)
        if known is not None:
            known.close()

    def _ask(self, id_: int, key: int, version: int, body: bytes) -> memoryview | None:
        """The answer's body; None when the broker cannot be asked."""
        self._correlation += 1
        try:
            if id_ not in self._sockets:
                self._sockets[id_] = socket.create_connection(self._addresses[id_], _SOCKET_S)
            connection = self._sockets[id_]
            frame = encode_request_header(key, version, self._correlation, "retrying") + body
            connection.sendall(_LENGTH.pack(len(frame)) + frame)
            answer = memoryview(self._read(connection, _LENGTH.unpack(self._read(connection, 4))[0]))
        except OSError:
            self._drop(id_)
            return None
        return answer[decode_response_header(key, version, answer).body_start :]

    def _read(self, connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = connection.recv(size - len(data))
            if not more:
                raise ConnectionResetError
            data += more
        return data

    def leader(self, topic: str) -> int | None:
        """Whom some broker names."""
        request = metadata.MetadataRequest([metadata.MetadataRequestTopic(name=topic)], False).encode(_METADATA_VERSION)
        for id_ in self._addresses:
            answer = self._ask(id_, _METADATA, _METADATA_VERSION, request)
            if answer is not None:
                for found in metadata.MetadataResponse.decode(_METADATA_VERSION, answer).topics:
                    for partition in found.partitions:
                        if partition.leader_id >= 0:
                            return partition.leader_id
        return None

    def write(self, topic: str, leader: int) -> bool:
        """One record, acks=all."""
        records = memoryview(bytearray(encode_batch([NewRecord(None, b"x")], timestamps=1)))
        request = produce.ProduceRequest(None, -1, 1500, [produce.ProducePartition(topic, 0, records)])
        answer = self._ask(leader, _PRODUCE, _PRODUCE_VERSION, produce.encode_request(_PRODUCE_VERSION, request))
        if answer is None:
            self.refusals.add(None)
            return False
        errors = {result.error for result in produce.decode_response(_PRODUCE_VERSION, answer).results}
        self.refusals |= errors - {ErrorCode.NONE}
        return errors == {ErrorCode.NONE}

    def until_written(self, topic: str) -> None:
        """Returns after the first success."""
        deadline = time.monotonic() + _GIVE_UP_S
        while True:
            leader = self.leader(topic)
            if leader is not None and self.write(topic, leader):
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing was written to {topic} within {_GIVE_UP_S} s")
            time.sleep(_PAUSE_S)


def make_topic(cluster: Cluster, client: RetryingClient, name: str, leader: int) -> None:
    """A partition on all brokers, as Kafka's tools make it: through ZooKeeper."""
    replicas = [leader, *(id_ for id_ in cluster.brokers if id_ != leader)]
    content = {"version": 1, "partitions": {"0": replicas}}
    cluster.zk.create(f"/brokers/topics/{name}", json.dumps(content).encode())
    cluster.wait_state(name, 0, leader=leader, isr=set(cluster.brokers))
    client.until_written(name)


def failovers(cluster: Cluster, victim: str, kills: int, beside: int = 0) -> Iterator[float]:
    """Seconds from each SIGKILL to the first acks=all success on a partition that it concerns.

    beside: so many further partitions fail over too.
    """
    client = RetryingClient(cluster)
    try:
        for nth in range(beside):
            make_topic(cluster, client, f"beside-{nth}", nth % len(cluster.brokers) + 1)
        for nth in range(kills):
            wait_until(lambda: cluster.live() == set(cluster.brokers), "all brokers registered")
            controller = cluster.controller()
            assert controller is not None
            others = [id_ for id_ in cluster.brokers if id_ != controller]
            leader = controller if victim == "both" else others[nth % len(others)]
            target = leader if victim == "leader" else controller
            topic = f"{victim}-{nth}"
            make_topic(cluster, client, topic, leader)
            process = cluster.brokers[target].process
            assert process is not None
            began = time.monotonic()
            process.kill()
            client.until_written(topic)
            yield time.monotonic() - began
            cluster.brokers[target].kill()
            cluster.brokers[target].start()
            for made in range(nth + 1):
                cluster.wait_state(f"{victim}-{made}", 0, isr=set(cluster.brokers))
    finally:
        client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--victim", choices=VICTIMS, required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--beside", type=int, default=0, help="further partitions")
    parser.add_argument("--keep", type=Path, help="leave the brokers' logs in this new folder")
    parser.add_argument("--suspicion", choices=("true", "false"), default="true")
    arguments = parser.parse_args()
    settings = {**SETTINGS, "failure.suspicion.enable": arguments.suspicion}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_cluster(arguments.keep or Path(folder) / "cluster", settings=settings) as cluster,
    ):
        wait_until(lambda: cluster.controller() is not None, "a controller")
        seconds = []
        for took in failovers(cluster, arguments.victim, arguments.kills, arguments.beside):
            seconds.append(took)
            print(f"{len(seconds)}: {took * 1000:.0f} ms, until {time.time():.3f}", flush=True)
        ordered = sorted(seconds)
        print(
            f"{arguments.victim}: {len(ordered)} kills, median {statistics.median(ordered) * 1000:.0f} ms, "
            f"p90 {ordered[int(len(ordered) * 0.9)] * 1000:.0f} ms, worst {ordered[-1] * 1000:.0f} ms"
        )


if __name__ == "__main__":
    main()
