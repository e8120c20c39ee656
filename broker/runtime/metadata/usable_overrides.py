"""A stored topic's settings, without those that cannot work.

Whatever wrote them, one topic's settings must not keep a broker from its other topics.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.config.settings import validate_topic_config
from broker.config.table import TOPIC_SETTINGS
from broker.config.values import ConfigError

_log = logging.getLogger("broker.config")


def usable_overrides(topic: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """The overrides whose value can work; each other one is logged, and the broker's default holds in its place."""
    usable = {}
    for name, value in overrides.items():
        try:
            if name in TOPIC_SETTINGS:
                validate_topic_config(name, value)
        except ConfigError as error:
            _log.error("topic %s: a setting is ignored, the broker's default holds: %s", topic, error)
        else:
            usable[name] = value
    return usable
