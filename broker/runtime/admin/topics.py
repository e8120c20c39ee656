"""CreateTopics and auto-creation. Loop thread; ZooKeeper is written on the worker.

CreateTopics is the controller's: other brokers respond NOT_CONTROLLER, and clients send to the controller instead. The
response waits until this broker's metadata shows leaders for all partitions, or the time is over. Auto-creation writes
from any broker. Source: kafka.server.ZkAdminManager, AutoTopicCreationManager.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol

from broker.config.settings import Settings, without_effect
from broker.core.admin import topic_names
from broker.core.admin.create_topics import Planned, Refused, automatic_topic, plan
from broker.core.controller.cluster_state import StoreUnavailable, Topic
from broker.runtime.admin.describe_configs import created_configs
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.metadata.dynamic_broker_config import DynamicConfig
from broker.runtime.metadata.topic_ids import new_topic_id
from broker.runtime.ports import Loop
from broker.runtime.requests.condition_waits import Waits
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.runtime.worker import Worker
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_log = logging.getLogger("broker.admin")

_EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS
_REQUEST_PARTITIONS_MAX = 10_000
"""What one request may create. Kafka with KRaft refuses more with the same message."""
_TOO_MANY = Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")

Results = dict[str, Planned | Refused]


class TopicStore(Protocol):
    """Blocking; raises StoreUnavailable."""

    def create_topic(self, topic: Topic, config: Mapping[str, str]) -> bool:
        """Create the topic and its settings together; False where it exists."""
        ...

    def being_deleted(self, name: str) -> bool:
        """Whether the topic is marked in `/admin/delete_topics`."""
        ...


class TopicHandlers:
    """See the module. Listens to the metadata cache."""

    def __init__(
        self,
        settings: Settings,
        cache: MetadataCache,
        store: TopicStore,
        worker: Worker,
        loop: Loop,
        is_controller: Callable[[], bool],
        dice: Random,
        dynamic: DynamicConfig,
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._store = store
        self._worker = worker
        self._loop = loop
        self._is_controller = is_controller
        self._dice = dice
        self._dynamic = dynamic
        self._creating: set[str] = set()
        self._not_created: dict[str, str | None] = {}
        """Why an internal topic could not be created, as last logged."""
        self._waits = Waits(loop)
        cache.add_listener(self._waits.check)

    def handle_create_topics(self, request: Request) -> None:
        """Create topics; responds once the metadata shows their leaders, or at the time-out."""
        body = decode_or_refuse(request, CreateTopicsRequest)
        if body is None:
            return
        times = Counter(topic.name for topic in body.topics)
        left = _REQUEST_PARTITIONS_MAX if len(body.topics) <= _REQUEST_PARTITIONS_MAX else 0
        results: Results = {}
        for topic in body.topics:
            if not self._is_controller():
                results[topic.name] = Refused(ErrorCode.NOT_CONTROLLER, None)
            elif times[topic.name] > 1:
                results[topic.name] = Refused(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
            else:
                result = self._plan(topic) if left > 0 else _TOO_MANY
                if isinstance(result, Planned):
                    left -= len(result.partitions)
                    result = result if left >= 0 else _TOO_MANY
                results[topic.name] = result
        planned = [result for result in results.values() if isinstance(result, Planned)]
        version, timeout_ms = request.api_version, body.timeout_ms

        def reply(ids: Mapping[str, str]) -> None:
            encoded = CreateTopicsResponse(
                topics=[self._created(name, result, ids) for name, result in results.items()]
            ).encode(version)
            respond(request, encoded)

        if not planned or body.validate_only:
            reply({})
            return

        def created(refusals: Mapping[str, Refused], ids: Mapping[str, str]) -> None:
            results.update(refusals)
            open_ = {p.name: len(p.partitions) for p in planned if p.name not in refusals}

            def timed_out() -> None:
                for name, partitions in open_.items():
                    if not self._cache.has_leaders(name, partitions):
                        results[name] = Refused(ErrorCode.REQUEST_TIMED_OUT, None)
                reply(ids)

            self._waits.until(
                lambda: all(self._cache.has_leaders(name, partitions) for name, partitions in open_.items()),
                timeout_ms,
                lambda: reply(ids),
                timed_out,
            )

        self._write(planned, created)

    def _plan(self, topic: CreatableTopic) -> Planned | Refused:
        racks = {broker.id: broker.rack for broker, _ in self._cache.alive()}
        absent = {broker for manual in topic.assignments for broker in manual.broker_ids} - racks.keys()
        away = absent & self._cache.assigned_brokers() if absent else frozenset()
        return plan(topic, self._cache.topics.keys(), racks, self._settings, self._dice, away)

    def _write(self, planned: list[Planned], then: Callable[[Mapping[str, Refused], Mapping[str, str]], None]) -> None:
        """Create on the worker; then(refusals, topic ids by name) on the loop."""

        def task() -> None:
            refusals: dict[str, Refused] = {}
            ids: dict[str, str] = {}
            for topic in planned:
                try:
                    ids[topic.name] = new_topic_id()
                    self._create(topic, ids[topic.name], refusals)
                except StoreUnavailable as unavailable:
                    _log.warning("topic %s: %s", topic.name, unavailable)
                    refusals[topic.name] = Refused(ErrorCode.REQUEST_TIMED_OUT, unavailable.told)
                except Exception:
                    _log.exception("topic %s was not created", topic.name)
                    refusals[topic.name] = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, None)
            self._loop.call_soon_threadsafe(lambda: then(refusals, ids))

        self._worker.submit("creating topics", task)

    def _create(self, topic: Planned, topic_id: str, refusals: dict[str, Refused]) -> None:
        """Worker thread."""
        if self._store.being_deleted(topic.name):
            refusals[topic.name] = Refused(_EXISTS, f"Topic '{topic.name}' is marked for deletion.")
        elif not self._store.create_topic(Topic(topic.name, topic_id, topic.partitions), topic.config):
            refusals[topic.name] = Refused(_EXISTS, f"Topic '{topic.name}' already exists.")
        else:
            _log.info("created topic %s: %s, %s", topic.name, dict(topic.partitions), dict(topic.config))
            if idle := without_effect(topic.config):
                _log.info("settings of topic %s without effect: %s", topic.name, idle)

    def auto_create(self, name: str) -> ErrorCode:
        """Begin to create a topic with the broker's defaults. Satisfies `metadata.handlers.CreateTopic`."""
        if name in self._creating:
            return ErrorCode.NONE
        planned = self._plan(automatic_topic(name, self._settings))
        if isinstance(planned, Refused):
            if name in topic_names.INTERNAL and self._not_created.get(name) != planned.text:
                # Clients ask again and again; they only hear that there is no coordinator.
                self._not_created[name] = planned.text
                _log.warning("topic %s cannot be created: %s", name, planned.text)
            return planned.error
        self._not_created.pop(name, None)
        self._creating.add(name)
        self._write([planned], lambda refusals, ids: self._creating.discard(name))
        return ErrorCode.NONE

    def _created(self, name: str, result: Planned | Refused, ids: Mapping[str, str]) -> CreatableTopicResult:
        if isinstance(result, Refused):
            return CreatableTopicResult(name=name, error_code=result.error, error_message=result.text, configs=[])
        made = CreatableTopicResult(
            name=name,
            num_partitions=len(result.partitions),
            replication_factor=result.replication_factor,
            configs=created_configs(self._settings, self._dynamic, result.config),
        )
        if name in ids:
            made.topic_id = ids[name]
        return made
