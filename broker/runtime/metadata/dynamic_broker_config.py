"""Settings of this broker that were changed at run time: in ZooKeeper, on top of what its file says. Loop thread.

An override of this broker comes before one of all brokers, and that before the file. Read before the logs are opened,
on every notification, and after every reconnect. Settings that make no sense here are named in the log and left out.
Source: kafka.server.DynamicBrokerConfig, BrokerConfigHandler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from broker.config.settings import Settings, retake_topic_defaults, validate_broker_config
from broker.config.values import ConfigError
from broker.core.admin.alter_configs import (
    ALL_BROKERS,
    DYNAMIC,
    FOLLOWER_RATE,
    LEADER_RATE,
    LOG_DIRS_RATE,
    THROTTLE_RATES,
    differs_between_brokers,
    throttle_rate,
)
from broker.core.controller.cluster_state import StoreUnavailable
from broker.model.backoff import Backoff
from broker.model.ids import BrokerId
from broker.runtime.ports import Loop
from broker.runtime.worker import Worker

_log = logging.getLogger("broker.config")


class BrokerConfigStore(Protocol):
    """Blocking; raises StoreUnavailable."""

    def broker_configs(self, broker: BrokerId) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """(what all brokers have, what this one has)."""
        ...


class DynamicConfig:
    """See the module. `settings.topic_defaults` is kept current in place."""

    def __init__(
        self,
        settings: Settings,
        broker_id: BrokerId,
        store: BrokerConfigStore,
        worker: Worker,
        loop: Loop,
        retries: Callable[[], Backoff] = Backoff,
    ) -> None:
        self._backoff = retries()
        self._settings = settings
        self._broker_id = broker_id
        self._store = store
        self._worker = worker
        self._loop = loop
        self._listeners: list[Callable[[], None]] = []
        self.of_all: Mapping[str, str] = {}
        """Overrides of all brokers."""
        self.own: Mapping[str, str] = {}
        """Overrides of this broker."""
        self.effective = settings
        """What the file would say if it had the overrides; of use to whom a setting can reach at run time."""

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Called after a change, on the loop's thread."""
        self._listeners.append(listener)

    @property
    def throttle_rates(self) -> tuple[int | None, int | None]:
        """Bytes per second that this broker may replicate as leader and as follower; None: any number."""
        merged = {**self.of_all, **self.own}
        leader, follower = merged.get(LEADER_RATE), merged.get(FOLLOWER_RATE)
        return (None if leader is None else int(leader), None if follower is None else int(follower))

    @property
    def log_dirs_rate(self) -> int | None:
        """Bytes per second that may move between this broker's log dirs; None: any number."""
        rate = {**self.of_all, **self.own}.get(LOG_DIRS_RATE)
        return None if rate is None else int(rate)

    def read_first(self) -> None:
        """Before the loop runs; blocks. Raises StoreUnavailable."""
        self._take(*self._store.broker_configs(self._broker_id))

    def on_entity(self, entity: str) -> None:
        """A notification: someone's settings changed."""
        if entity in (f"brokers/{self._broker_id}", ALL_BROKERS):
            self.refresh()

    def refresh(self) -> None:
        """Read again, and tell the listeners of a change. Waits out ZooKeeper."""

        def task() -> None:
            try:
                found = self._store.broker_configs(self._broker_id)
            except StoreUnavailable as unavailable:
                _log.warning("this broker's settings cannot be read yet: %s", unavailable)
                wait_ms = self._backoff.next_ms()
                self._loop.call_soon_threadsafe(lambda: self._retry_in(wait_ms))
                return
            self._backoff.reset()
            self._loop.call_soon_threadsafe(lambda: self._found(*found))

        self._worker.submit("reading this broker's settings", task)

    def _retry_in(self, wait_ms: float) -> None:
        self._loop.call_later(wait_ms, self.refresh)

    def _found(self, of_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        before = (self.of_all, self.own)
        self._take(of_all, own)
        if (self.of_all, self.own) != before:
            _log.info("settings of all brokers: %s; of this one: %s", dict(self.of_all), dict(self.own))
            for listener in self._listeners:
                listener()

    def _take(self, of_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        self.of_all, self.own = _sound(of_all), _sound(own, of_one=True)
        merged = {**self.of_all, **self.own}
        static = {name: value for name, value in merged.items() if name not in THROTTLE_RATES}
        try:
            self.effective = retake_topic_defaults(self._settings, static)
        except ConfigError as error:
            _log.error("settings changed at run time contradict each other, none is used: %s", error)
            self.effective = retake_topic_defaults(self._settings, {})


def _sound(config: Mapping[str, str], of_one: bool = False) -> dict[str, str]:
    kept = {}
    for name, value in config.items():
        try:
            if name not in DYNAMIC:
                raise ConfigError(f"{name} cannot change at run time")
            if of_one and not differs_between_brokers(name):
                raise ConfigError(f"{name} cannot change for a single broker")
            if name in THROTTLE_RATES:
                throttle_rate(name, value)
            else:
                validate_broker_config(name, value)
        except ValueError as error:
            _log.error("a setting is ignored: %s", error)
        else:
            kept[name] = value
    return kept
