"""A consumer's fetch session with one broker (KIP-227): what each request leaves out, and what a response that leaves a
partition out says of it.

Decides what the next request names. Must not know routing or the history. Invariant: a partition that an incremental
response does not name had, when it was answered, nothing new above the offset that the session has for it. After any
error of the whole the next request begins a session anew.
Source: org.apache.kafka.clients.FetchSessionHandler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.wire.api import ApiKey
from broker.wire.errors import error_name
from broker.wire.messages import fetch
from harness.clients.connection import ClientError, Connection
from harness.clients.fetch import FETCH_VERSION, Polled, decoded_fetch, polled
from harness.clients.responses import malformed

_EPOCH_MAX = 2**31 - 1


class Wanted(NamedTuple):
    """Where to fetch from. leader_epoch: as the client knows it, −1 unknown."""

    position: int
    leader_epoch: int


@dataclass(slots=True)
class FetchSession:
    """Of one consumer with one broker, over one topic. Not thread-safe.

    named: what the broker was last told of each partition of the session. told: what its responses last said of each.
    """

    topic: str
    id: int = fetch.NO_SESSION_ID
    epoch: int = fetch.INITIAL_SESSION_EPOCH
    named: dict[int, Wanted] = field(default_factory=dict)
    told: dict[int, Polled] = field(default_factory=dict)

    @property
    def incremental(self) -> bool:
        """Whether the broker has a session for the next request to go on with."""
        return self.id != fetch.NO_SESSION_ID

    def poll(
        self,
        connection: Connection,
        wanted: Mapping[int, Wanted],
        *,
        isolation: int,
        max_wait_ms: int,
        max_bytes: int,
        deadline_ns: int,
    ) -> Mapping[int, Polled]:
        """One request; what came of each partition that is wanted. max_bytes: of each partition at most.

        Raises ClientError when there is no response that can be read.
        """
        try:
            results = self._results(connection, self._request(wanted, isolation, max_wait_ms, max_bytes), deadline_ns)
        except ClientError:
            self._begin_anew()
            raise
        if isinstance(results, Polled):
            return {partition: results._replace(next_position=at.position) for partition, at in wanted.items()}
        return {partition: results[partition] for partition in wanted}

    def _request(
        self, wanted: Mapping[int, Wanted], isolation: int, max_wait_ms: int, max_bytes: int
    ) -> fetch.FetchRequest:
        changed = {partition: at for partition, at in wanted.items() if self.named.get(partition) != at}
        forgotten = [partition for partition in self.named if partition not in wanted]
        self.named = dict(wanted)
        for partition in forgotten:
            self.told.pop(partition, None)
        return fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            max_bytes=max_bytes * max(1, len(wanted)),
            isolation_level=isolation,
            session_id=self.id,
            session_epoch=self.epoch,
            partitions=[
                fetch.FetchPartition(
                    self.topic,
                    partition=partition,
                    current_leader_epoch=at.leader_epoch,
                    fetch_offset=at.position,
                    max_bytes=max_bytes,
                )
                for partition, at in (changed if self.incremental else wanted).items()
            ],
            forgotten=[fetch.ForgottenPartition(self.topic, partition=partition) for partition in forgotten]
            if self.incremental
            else [],
        )

    def _results(
        self, connection: Connection, request: fetch.FetchRequest, deadline_ns: int
    ) -> Mapping[int, Polled] | Polled:
        """Of each partition of the session; of all at once where the response is an error of the whole."""
        went_on = self.incremental
        body = fetch.encode_request(FETCH_VERSION, request)
        received = connection.exchange(ApiKey.FETCH, FETCH_VERSION, body, deadline_ns)
        response = decoded_fetch(connection, received)
        if response.error:
            self._begin_anew()
            return Polled(error_name(response.error), -1, -1, -1, -1, [], received.at_ns)
        found = {result.partition: result for result in response.results if result.topic == self.topic}
        out: dict[int, Polled] = {}
        for partition, at in self.named.items():
            if partition in found:
                out[partition] = polled(
                    connection, found[partition], at.position, request.isolation_level, received.at_ns
                )
            elif went_on and partition in self.told:
                # What an answer before this one said of the log has not changed, or this one would name it.
                out[partition] = self.told[partition]._replace(
                    next_position=at.position, records=[], at_ns=received.at_ns
                )
            else:
                raise malformed(connection, f"no response for {self.topic}-{partition}")
        self.told = {partition: one for partition, one in out.items() if one.error is None}
        self.id = response.session_id
        if not self.incremental:
            # The broker keeps no more sessions: the next request names everything again.
            self._begin_anew()
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        return out

    def _begin_anew(self) -> None:
        self.id, self.epoch = fetch.NO_SESSION_ID, fetch.INITIAL_SESSION_EPOCH
        self.named, self.told = {}, {}
