"""CreatePartitions. Loop thread; ZooKeeper is read and written on the worker.

Only the controller serves it; it learns of the new partitions through the topic's znode, as of partitions that a tool
adds. The write is conditional on what was read, so a reassignment that begins meanwhile is not overwritten. The
response waits until this broker's metadata shows leaders for all partitions, or the time is over.
Source: kafka.server.ZkAdminManager.createPartitions, DelayedCreatePartitions.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from broker.core.admin import topic_names
from broker.core.admin.create_partitions import plan_partitions
from broker.core.admin.create_topics import Refused
from broker.core.controller.cluster_state import StoreContended, StoreUnavailable
from broker.model.ids import BrokerId
from broker.runtime.admin.ports import PartitionStore
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.ports import Loop
from broker.runtime.requests.condition_waits import Waits
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.runtime.worker import Worker
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

_log = logging.getLogger("broker.admin")

_TRIES = 10


class PartitionHandlers:
    """See the module."""

    def __init__(
        self,
        cache: MetadataCache,
        store: PartitionStore,
        worker: Worker,
        loop: Loop,
        is_controller: Callable[[], bool],
    ) -> None:
        self._cache = cache
        self._store = store
        self._worker = worker
        self._loop = loop
        self._is_controller = is_controller
        self._waits = Waits(loop)
        cache.add_listener(self._waits.check)

    def handle_create_partitions(self, request: Request) -> None:
        """Add partitions (KIP-195); responds once the metadata shows them, or at the time-out."""
        body = decode_or_refuse(request, CreatePartitionsRequest)
        if body is None:
            return
        times = Counter(topic.name for topic in body.topics)
        results: dict[str, Refused | None] = {}
        wanted = []
        for topic in body.topics:
            if not self._is_controller():
                results[topic.name] = Refused(ErrorCode.NOT_CONTROLLER, None)
            elif times[topic.name] > 1:
                results[topic.name] = Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            else:
                wanted.append(topic)

        def reply() -> None:
            respond(request, CreatePartitionsResponse(results=_results(results)).encode(request.api_version))

        def written(refusals: Mapping[str, Refused | None]) -> None:
            results.update(refusals)
            open_ = {topic.name: topic.count for topic in wanted if refusals[topic.name] is None}
            if body.validate_only:
                reply()
                return

            def timed_out() -> None:
                for name, count in open_.items():
                    if not self._cache.has_leaders(name, count):
                        results[name] = Refused(ErrorCode.REQUEST_TIMED_OUT, None)
                reply()

            self._waits.until(
                lambda: all(self._cache.has_leaders(name, count) for name, count in open_.items()),
                body.timeout_ms,
                reply,
                timed_out,
            )

        if wanted:
            self._add(wanted, body.validate_only, written)
        else:
            reply()

    def _add(
        self,
        wanted: list[CreatePartitionsTopic],
        validate_only: bool,
        then: Callable[[Mapping[str, Refused | None]], None],
    ) -> None:
        """Read, plan and write on the worker; then(per topic None or the refusal) on the loop."""
        racks = {broker.id: broker.rack for broker, _ in self._cache.alive()}

        def task() -> None:
            results: dict[str, Refused | None] = {}
            for topic in wanted:
                try:
                    results[topic.name] = self._add_one(topic, racks, validate_only)
                except StoreUnavailable as unavailable:
                    _log.warning("partitions of topic %s: %s", topic.name, unavailable)
                    results[topic.name] = Refused(ErrorCode.REQUEST_TIMED_OUT, unavailable.told)
                except Exception:
                    _log.exception("topic %s got no more partitions", topic.name)
                    results[topic.name] = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            self._loop.call_soon_threadsafe(lambda: then(results))

        self._worker.submit("adding partitions", task)

    def _add_one(
        self, wanted: CreatePartitionsTopic, racks: Mapping[BrokerId, str | None], validate_only: bool
    ) -> Refused | None:
        """Worker thread."""
        for _ in range(_TRIES):
            read = None
            if topic_names.refusal(wanted.name) is None and not self._store.being_deleted(wanted.name):
                read = self._store.read_topic(wanted.name)
            planned = plan_partitions(wanted, None if read is None else read.topic, racks)
            if isinstance(planned, Refused) or validate_only:
                return planned if isinstance(planned, Refused) else None
            assert read is not None
            topic = replace(read.topic, partitions={**read.topic.partitions, **planned})
            if self._store.write_topic(read, topic):
                _log.info("topic %s: new partitions %s", wanted.name, planned)
                return None
        raise StoreContended(f"topic {wanted.name} changed {_TRIES} times in a row")


def _results(results: Mapping[str, Refused | None]) -> list[CreatePartitionsTopicResult]:
    return [
        CreatePartitionsTopicResult(name, *((0, None) if refused is None else (refused.error, refused.text)))
        for name, refused in results.items()
    ]
