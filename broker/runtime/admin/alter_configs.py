"""AlterConfigs and IncrementalAlterConfigs, for topics and for this broker. Loop thread; ZooKeeper on the worker.

Any broker writes a topic's settings; a broker's own only that broker. Reading, deciding and writing are one conditional
step, so two clients that change different settings at once both get theirs. The response follows the write; every
broker applies the setting as soon as ZooKeeper's notification reaches it. Source: kafka.server.ZkAdminManager,
AdminZkClient.changeEntityConfig.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from broker.config.settings import Settings, without_effect
from broker.core.admin import alter_configs as rules
from broker.core.admin.alter_configs import ConfigRefused, Edit, Operation
from broker.core.controller.cluster_state import StoreContended, StoreUnavailable
from broker.model.ids import BrokerId
from broker.runtime.admin.ports import ConfigStore
from broker.runtime.ports import Loop
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.runtime.worker import Worker
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementallyAlteredResult,
)

_log = logging.getLogger("broker.admin")

_TRIES = 10

Resource = tuple[int, str]
"""Type and name."""
Outcome = tuple[ErrorCode, str | None]


class AlterConfigHandlers:
    """See the module."""

    def __init__(
        self,
        settings: Settings,
        broker_id: BrokerId,
        store: ConfigStore,
        worker: Worker,
        loop: Loop,
        topic_exists: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._broker_id = broker_id
        self._store = store
        self._worker = worker
        self._loop = loop
        self._topic_exists = topic_exists

    def handle_incremental_alter_configs(self, request: Request) -> None:
        """Set, delete, append or subtract single settings (KIP-339); each resource has its own result."""
        body = decode_or_refuse(request, IncrementalAlterConfigsRequest)
        if body is None:
            return
        requested = [
            (
                (one.resource_type, one.resource_name),
                [Edit(edit.name, edit.config_operation, edit.value) for edit in one.configs],
            )
            for one in body.resources
        ]

        def reply(outcomes: Sequence[Outcome]) -> None:
            rows = [
                IncrementallyAlteredResult(error, text, kind, name)
                for ((kind, name), _), (error, text) in zip(requested, outcomes, strict=True)
            ]
            respond(request, IncrementalAlterConfigsResponse(responses=rows).encode(request.api_version))

        self._alter(requested, False, body.validate_only, reply)

    def handle_alter_configs(self, request: Request) -> None:
        """Replace all settings of each resource: one that is not named falls back to its default."""
        body = decode_or_refuse(request, AlterConfigsRequest)
        if body is None:
            return
        requested = [
            (
                (one.resource_type, one.resource_name),
                [Edit(edit.name, Operation.SET, edit.value) for edit in one.configs],
            )
            for one in body.resources
        ]

        def reply(outcomes: Sequence[Outcome]) -> None:
            rows = [
                AlterConfigsResourceResponse(error, text, kind, name)
                for ((kind, name), _), (error, text) in zip(requested, outcomes, strict=True)
            ]
            respond(request, AlterConfigsResponse(responses=rows).encode(request.api_version))

        self._alter(requested, True, body.validate_only, reply)

    def _alter(
        self,
        requested: Sequence[tuple[Resource, list[Edit]]],
        replace_all: bool,
        validate_only: bool,
        then: Callable[[Sequence[Outcome]], None],
    ) -> None:
        """replace_all: what is not named loses its override. then(outcome per resource) on the loop."""
        counts = Counter(resource for resource, _ in requested)

        def task() -> None:
            outcomes: list[Outcome] = []
            for resource, edits in requested:
                try:
                    if counts[resource] > 1:
                        raise ConfigRefused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                    self._alter_one(resource, edits, replace_all, validate_only)
                    outcomes.append((ErrorCode.NONE, None))
                except ConfigRefused as refused:
                    outcomes.append((refused.error, refused.text))
                except StoreUnavailable as unavailable:
                    _log.warning("settings of %s: %s", resource, unavailable)
                    outcomes.append((ErrorCode.REQUEST_TIMED_OUT, unavailable.told))
                except Exception:
                    _log.exception("settings of %s were not changed", resource)
                    outcomes.append((ErrorCode.UNKNOWN_SERVER_ERROR, None))
            self._loop.call_soon_threadsafe(lambda: then(outcomes))

        self._worker.submit("changing settings", task)

    def _alter_one(self, resource: Resource, edits: list[Edit], replace_all: bool, validate_only: bool) -> None:
        """Worker thread."""
        kind, name = resource
        rules.check_edits(edits)
        entity = rules.entity_of(kind, name, self._broker_id, incremental=not replace_all)
        for _ in range(_TRIES):
            if kind == rules.TOPIC and not self._topic_exists(name):
                raise ConfigRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            read = self._store.read_config(entity)
            defaults = self._settings.topic_defaults if kind == rules.TOPIC else self._settings.given
            config = rules.edited({} if replace_all else read.config, defaults, edits)
            rules.check_config(kind, name, config, self._settings, read.config)
            if validate_only:
                return
            if config == read.config:
                # As Kafka does, also where nothing changed: the notification of an earlier change may have been lost.
                self._store.notify_config(entity)
                return
            if self._store.write_config(read, config):
                _log.info("settings of %s: %s", entity, config)
                idle = without_effect({key: value for key, value in config.items() if read.config.get(key) != value})
                if kind == rules.TOPIC and idle:
                    _log.info("settings of %s without effect: %s", entity, idle)
                return
        raise StoreContended(f"settings of {entity} changed {_TRIES} times in a row")
