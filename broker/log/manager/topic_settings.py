"""Settings of the logs: the broker's defaults, each topic's overrides, and what the open logs of a topic get of both.

Source: kafka LogManager.updateTopicConfig, reconfigureDefaultLogConfig; TopicConfigHandler.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.log.config import LogConfig
from broker.log.manager.open_logs import OpenLogs

_SPARE_OVERRIDES = 1000

TopicConfigs = Mapping[str, Mapping[str, str]]
"""Topic → its overrides, under Kafka's names."""


class TopicSettings:
    """A topic's settings are for all of its logs, those included that are made later."""

    def __init__(self, logs: OpenLogs, defaults: Mapping[str, str], overrides: TopicConfigs) -> None:
        self._logs = logs
        self._defaults = dict(defaults)
        self._overrides = {topic: dict(config) for topic, config in overrides.items()}

    def of(self, topic: str) -> LogConfig:
        """The topic's overrides over the broker's settings; the latter alone for a topic that is not known."""
        return LogConfig.parse(self._overrides.get(topic, {}), self._defaults)

    @property
    def defaults(self) -> LogConfig:
        """Of a topic without overrides."""
        return LogConfig.parse({}, self._defaults)

    def update(self, topic: str, config: Mapping[str, str]) -> None:
        """Replace a topic's overrides. Raises ValueError naming a bad one, changing nothing."""
        parsed = LogConfig.parse(config, self._defaults)
        if len(self._overrides) > 2 * len(self._logs.homes) + _SPARE_OVERRIDES:
            self._forget_unused()
        self._overrides[topic] = dict(config)
        self._apply(topic, parsed)

    def learn(self, topic: str, config: Mapping[str, str]) -> None:
        """As `update`, where these are not the overrides that the topic has already."""
        if self._overrides.get(topic, {}) != config:
            self.update(topic, config)

    def update_defaults(self, defaults: Mapping[str, str]) -> bool:
        """Replace the broker's defaults; False where they are the same. Raises ValueError naming a bad one."""
        if defaults == self._defaults:
            return False
        without_overrides = LogConfig.parse({}, defaults)
        self._defaults = dict(defaults)
        for topic in self._logs.topics():
            self._apply(topic, self.of(topic) if self._overrides.get(topic) else without_overrides)
        return True

    def _apply(self, topic: str, parsed: LogConfig) -> None:
        for log in self._logs.of_topic(topic):
            if log.config != parsed:
                log.config = parsed
                if parsed.may_have_holes:
                    log.allow_holes()

    def _forget_unused(self) -> None:
        """Drop the overrides of topics without a log here: whoever makes a log passes its topic's settings."""
        used = {tp.topic for tp in self._logs.homes}
        self._overrides = {topic: config for topic, config in self._overrides.items() if topic in used}
