"""A scripted, in-memory partition leader over real TCP: just enough to drive the harness's clients.

It keeps batches as they came, stamps offsets and epochs, and can be told to misbehave for the next request of an API.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.wire.api import ADVERTISED, ApiKey
from broker.wire.headers import RequestHeader, decode_request_header, encode_response_header
from broker.wire.messages import fetch, fetch_response, produce
from broker.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from broker.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from broker.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from broker.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementallyAlteredResult,
)
from broker.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.wire.record_batch import read_header, stamp

_LENGTH = struct.Struct(">i")
_SERVED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.DESCRIBE_CONFIGS,
)

# What to do with one request instead of answering it: given its header, the raw answer frame to send, or None to close.
Misbehaviour = Callable[[RequestHeader], bytes | None]


@dataclass(slots=True)
class Partition:
    leader: int = 1
    epoch: int = 5
    isr: list[int] = field(default_factory=lambda: [1])
    log: bytearray = field(default_factory=bytearray)
    leo: int = 0
    log_start: int = 0
    produce_error: int = 0
    fetch_error: int = 0
    delete_error: int = 0


@dataclass(slots=True)
class Session:
    """A consumer's fetch session: where it is in each partition, and what it was told."""

    epoch: int = 0
    wanted: dict[int, fetch.FetchPartition] = field(default_factory=dict)
    told: dict[int, tuple[int, int, int]] = field(default_factory=dict)


class FakeBroker:
    """One broker with one topic."""

    def __init__(
        self, topic: str = "hw", partitions: int = 1, broker_id: int = 1, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.topic = topic
        self.broker_id = broker_id
        self.partitions = {index: Partition(leader=broker_id) for index in range(partitions)}
        self.lock = threading.Lock()
        self.requests: list[tuple[ApiKey, str | None]] = []
        self.misbehave: dict[ApiKey, deque[Misbehaviour]] = {}
        self.sessions: dict[int, Session] = {}
        self.sessions_max = 100
        self.config: dict[str, str | None] = {}
        self.alter_error = 0
        self.fetched: list[fetch.FetchRequest] = []
        self._server = socket.create_server((host, port))
        self.port: int = self._server.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def next(self, api: ApiKey, *what: Misbehaviour) -> None:
        self.misbehave.setdefault(api, deque()).extend(what)

    def asked(self, api: ApiKey) -> int:
        with self.lock:
            return sum(one == api for one, _ in self.requests)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join()

    def drop_connections(self) -> None:
        for made in list(self._sockets):
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._server.accept()
            except OSError:
                return
            self._sockets.add(made)
            thread = threading.Thread(target=self._serve, args=(made,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, made: socket.socket) -> None:
        with contextlib.suppress(OSError), made, made.makefile("rb") as stream:
            while len(prefix := stream.read(4)) == 4:
                frame = memoryview(stream.read(_LENGTH.unpack(prefix)[0]))
                header = decode_request_header(frame)
                api = ApiKey(header.api_key)
                with self.lock:
                    self.requests.append((api, header.client_id))
                    waiting = self.misbehave.get(api)
                    odd = waiting.popleft() if waiting else None
                if odd is not None:
                    answer = odd(header)
                    if answer is None:
                        break
                    made.sendall(answer)
                    continue
                with self.lock:
                    body = self._answer(api, header, frame[header.body_start :])
                if body is not None:
                    head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
                    made.sendall(_LENGTH.pack(len(head) + len(body)) + head + body)
        self._sockets.discard(made)

    def _answer(self, api: ApiKey, header: RequestHeader, body: memoryview) -> bytes | None:
        version = header.api_version
        match api:
            case ApiKey.API_VERSIONS:
                keys = [ApiVersion(key, *ADVERTISED[key]) for key in _SERVED]
                return ApiVersionsResponse(api_keys=keys).encode(version)
            case ApiKey.METADATA:
                return self._metadata().encode(version)
            case ApiKey.PRODUCE:
                return self._produce(version, produce.decode_request(version, body))
            case ApiKey.FETCH:
                return self._fetch(version, fetch.decode_request(version, body))
            case ApiKey.LIST_OFFSETS:
                return self._list_offsets(ListOffsetsRequest.decode(version, body)).encode(version)
            case ApiKey.CREATE_TOPICS:
                return self._create(CreateTopicsRequest.decode(version, body)).encode(version)
            case ApiKey.DELETE_RECORDS:
                return self._delete(DeleteRecordsRequest.decode(version, body)).encode(version)
            case ApiKey.INCREMENTAL_ALTER_CONFIGS:
                return self._alter(IncrementalAlterConfigsRequest.decode(version, body)).encode(version)
            case ApiKey.DESCRIBE_CONFIGS:
                have = [
                    DescribeConfigsResourceResult(key, value, config_source=1) for key, value in self.config.items()
                ]
                described = DescribeConfigsResult(0, None, 2, self.topic, have)
                return DescribeConfigsResponse(results=[described]).encode(version)
        raise AssertionError(api)

    def _metadata(self) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(0, index, p.leader, p.epoch, list(p.isr), list(p.isr))
            for index, p in self.partitions.items()
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(self.broker_id, "127.0.0.1", self.port)],
            cluster_id="fake",
            controller_id=self.broker_id,
            topics=[MetadataResponseTopic(0 if partitions else 3, self.topic, partitions=partitions)],
        )

    def _produce(self, version: int, request: produce.ProduceRequest) -> bytes | None:
        results = []
        for topic, index, records in request.partitions:
            partition = self.partitions[index]
            base = -1
            if not partition.produce_error:
                assert records is not None
                base = self.append(index, bytes(records))
            results.append(produce.ProducePartitionResult(topic, index, partition.produce_error, base))
        return None if request.acks == 0 else produce.encode_response(version, results)

    def append(self, index: int, batch: bytes) -> int:
        """Stamp and keep one batch; its base offset."""
        partition = self.partitions[index]
        writable = memoryview(bytearray(batch))
        base = partition.leo
        stamp(writable, 0, base, partition.epoch)
        partition.log += writable
        partition.leo = base + read_header(writable).last_offset_delta + 1
        return base

    def cut_last(self, index: int) -> None:
        """Lose the last batch, as a replica that was truncated."""
        partition, at = self.partitions[index], self.last_at(index)
        partition.leo = read_header(memoryview(bytes(partition.log)), at).base_offset
        del partition.log[at:]

    def last_at(self, index: int) -> int:
        """Where the last batch of a log begins, in bytes."""
        view = memoryview(bytes(self.partitions[index].log))
        at = 0
        while (size := read_header(view, at).size) + at < len(view):
            at += size
        return at

    def _fetch(self, version: int, request: fetch.FetchRequest) -> bytes:
        self.fetched.append(request)
        if request.session_epoch == fetch.FINAL_SESSION_EPOCH:
            return self._fetched(version, self._read(request.partitions))
        if request.session_id == 0:
            return self._begin_session(version, request)
        session = self.sessions.get(request.session_id)
        if session is None or request.session_epoch != session.epoch + 1:
            return self._fetched(version, [], error=70 if session is None else 71)
        session.epoch = request.session_epoch
        session.wanted.update({one.partition: one for one in request.partitions})
        for gone in request.forgotten:
            del session.wanted[gone.partition]
        news = [one for one in self._read(list(session.wanted.values())) if self._is_news(session, one)]
        return self._fetched(version, news, session_id=request.session_id)

    def _begin_session(self, version: int, request: fetch.FetchRequest) -> bytes:
        session = Session(0, {one.partition: one for one in request.partitions})
        results = self._read(request.partitions)
        for result in results:
            self._is_news(session, result)
        number = 0
        if len(self.sessions) < self.sessions_max:
            number = len(self.sessions) + 7
            self.sessions[number] = session
        return self._fetched(version, results, session_id=number)

    def _is_news(self, session: Session, result: fetch_response.FetchPartitionResult) -> bool:
        told = result.error, result.high_watermark, result.log_start_offset
        news = bool(result.error or len(result.records_view) or session.told.get(result.partition) != told)
        session.told[result.partition] = told
        return news

    def _fetched(
        self,
        version: int,
        results: list[fetch_response.FetchPartitionResult],
        *,
        session_id: int = 0,
        error: int = 0,
    ) -> bytes:
        chunks = fetch_response.encode_response(version, results, session_id=session_id, error=error)
        return b"".join(bytes(chunk) for chunk in chunks)

    def _read(self, wanted_partitions: list[fetch.FetchPartition]) -> list[fetch_response.FetchPartitionResult]:
        results = []
        for wanted in wanted_partitions:
            partition = self.partitions[wanted.partition]
            error = partition.fetch_error
            if not error and not partition.log_start <= wanted.fetch_offset <= partition.leo:
                error = 1
            view = memoryview(bytes(partition.log))
            at = 0
            while at < len(view) and read_header(view, at).last_offset < wanted.fetch_offset:
                at += read_header(view, at).size
            # Cut in the middle of a batch, as a broker may.
            rest = view[at : at + max(wanted.max_bytes, 1)]
            records = [] if error or not rest else [rest]
            results.append(
                fetch_response.FetchPartitionResult(
                    self.topic,
                    "",
                    wanted.partition,
                    error,
                    partition.leo,
                    partition.leo,
                    partition.log_start,
                    None,
                    -1,
                    records,
                )
            )
        return results

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        answers = []
        for topic in request.topics:
            parts = [
                ListOffsetsPartitionResponse(
                    p.partition_index,
                    0,
                    p.timestamp,
                    self.partitions[p.partition_index].log_start
                    if p.timestamp == -2
                    else self.partitions[p.partition_index].leo,
                    5,
                )
                for p in topic.partitions
            ]
            answers.append(ListOffsetsTopicResponse(topic.name, parts))
        return ListOffsetsResponse(topics=answers)

    def _delete(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        answers = []
        for topic in request.topics:
            parts = []
            for wanted in topic.partitions:
                partition = self.partitions[wanted.partition_index]
                error = partition.delete_error or (0 if wanted.offset <= partition.leo else 1)
                if not error:
                    partition.log_start = max(partition.log_start, wanted.offset)
                low = -1 if error else partition.log_start
                parts.append(DeleteRecordsPartitionResult(wanted.partition_index, low, error))
            answers.append(DeleteRecordsTopicResult(topic.name, parts))
        return DeleteRecordsResponse(topics=answers)

    def _alter(self, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        answers = []
        for resource in request.resources:
            if not self.alter_error:
                self.config |= {one.name: one.value for one in resource.configs}
            answers.append(
                IncrementallyAlteredResult(self.alter_error, None, resource.resource_type, resource.resource_name)
            )
        return IncrementalAlterConfigsResponse(responses=answers)

    def _create(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        answers = []
        for topic in request.topics:
            count = len(topic.assignments) or topic.num_partitions
            error = 36 if self.partitions else 0
            if not error:
                self.partitions = {index: Partition(leader=self.broker_id) for index in range(count)}
            answers.append(CreatableTopicResult(topic.name, error_code=error))
        return CreateTopicsResponse(topics=answers)
