"""DescribeConfigs for topics and for this broker. Loop thread; a topic's overrides are read on the worker.

Source: kafka.server.ConfigHelper, DescribeConfigsResponse.ConfigSource and ConfigType.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import dropwhile

from broker.config.documentation import of_broker_setting, of_topic_setting
from broker.config.settings import Settings
from broker.config.table import BY_NAME, IDLE_SETTINGS, INERT_TOPIC_SETTINGS, TOPIC_SETTINGS
from broker.core.admin import topic_names
from broker.core.admin.alter_configs import DYNAMIC, ConfigRefused, broker_of
from broker.core.admin.create_topics import clipped
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.metadata.dynamic_broker_config import DynamicConfig
from broker.runtime.metadata.topic_configs import TopicConfigCache
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.create_topics import CreatableTopicConfigs
from broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TOPIC, BROKER = 2, 4
TOPIC_SOURCE, BROKER_SOURCE, ALL_BROKERS_SOURCE, STATIC_BROKER_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5
_TYPES = {"bool": 1, "str": 2, "int": 3, "long": 5, "float": 6, "list": 7}
_UNKNOWN_TYPE = 0
_LONG_TYPE = _TYPES["long"]
_BROKER_NAMES: Mapping[str, tuple[str, ...]] = {
    **{setting.topic_name: (setting.name,) for setting in BY_NAME.values() if setting.topic_name},
    **{name: (inert.broker_name,) for name, inert in INERT_TOPIC_SETTINGS.items() if inert.broker_name},
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "flush.ms": ("log.flush.interval.ms",),
}
"""Topic settings → the broker's settings that give their default, the one that counts first."""
_GROUPS = tuple(names for names in _BROKER_NAMES.values() if len(names) > 1)
_INERT_DEFAULTS = {inert.broker_name: inert.default for inert in INERT_TOPIC_SETTINGS.values() if inert.broker_name}


class ConfigHandlers:
    """See the module."""

    def __init__(
        self,
        settings: Settings,
        broker_id: int,
        cache: MetadataCache,
        configs: TopicConfigCache,
        dynamic: DynamicConfig,
    ) -> None:
        self._settings = settings
        self._broker_id = broker_id
        self._cache = cache
        self._configs = configs
        self._dynamic = dynamic

    def handle_describe_configs(self, request: Request) -> None:
        """Settings of topics and of this broker, with their sources and synonyms (KIP-226)."""
        body = decode_or_refuse(request, DescribeConfigsRequest)
        if body is None:
            return
        version = request.api_version
        topics = {
            resource.resource_name: self._cache.topics[resource.resource_name].topic_id
            for resource in body.resources
            if resource.resource_type == TOPIC and resource.resource_name in self._cache.topics
        }

        def reply() -> None:
            results = [self._describe(resource, body.include_synonyms) for resource in body.resources]
            if body.include_documentation:
                _document(results)
            respond(request, DescribeConfigsResponse(results=results).encode(version))

        if topics:
            self._configs.load(topics, reply)
        else:
            reply()

    def _describe(self, resource: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
        name, kind = resource.resource_name, resource.resource_type
        result = DescribeConfigsResult(resource_type=kind, resource_name=name)
        keys = resource.configuration_keys or None
        invalid = topic_names.refusal(name) if kind == TOPIC else None
        if invalid is not None:
            result.error_code, result.error_message = ErrorCode.INVALID_TOPIC_EXCEPTION, clipped(invalid)
        elif kind == TOPIC and name in self._cache.topics:
            overrides = self._configs.overrides(name)
            result.configs = _topic_rows(self._settings, self._dynamic, overrides, keys, synonyms)
        elif kind == TOPIC:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif kind == BROKER and not name:
            result.configs = _all_brokers_rows(self._dynamic, keys, synonyms)
        elif kind == BROKER:
            try:
                self._check_broker(name)
            except ConfigRefused as refused:
                result.error_code, result.error_message = refused.error, refused.text
            else:
                result.configs = _broker_rows(self._settings, self._dynamic, keys, synonyms)
        else:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = f"Unsupported resource type: {kind}"
        return result

    def _check_broker(self, name: str) -> None:
        """Raises ConfigRefused for another broker than this one."""
        if broker_of(name) != self._broker_id:
            text = f"Unexpected broker id, expected {self._broker_id} or empty string, but received {name}"
            raise ConfigRefused(ErrorCode.INVALID_REQUEST, text)


def _topic_rows(
    settings: Settings,
    dynamic: DynamicConfig,
    overrides: Mapping[str, str],
    keys: Collection[str] | None,
    synonyms: bool,
) -> list[DescribeConfigsResourceResult]:
    rows = []
    for name in sorted({*TOPIC_SETTINGS, *INERT_TOPIC_SETTINGS, *overrides}):
        if keys is not None and name not in keys:
            continue
        known = TOPIC_SETTINGS.get(name) or INERT_TOPIC_SETTINGS.get(name)
        layers = _synonyms(settings, dynamic, *_BROKER_NAMES.get(name, ()))
        if name in overrides:
            layers.insert(0, DescribeConfigsSynonym(name, overrides[name], TOPIC_SOURCE))
        default = (
            INERT_TOPIC_SETTINGS[name].default if name in INERT_TOPIC_SETTINGS else settings.topic_defaults.get(name)
        )
        rows.append(
            DescribeConfigsResourceResult(
                name=name,
                value=overrides.get(name, default),
                config_source=layers[0].source if layers else DEFAULT_SOURCE,
                config_type=_UNKNOWN_TYPE if known is None else _TYPES[known.kind],
                synonyms=layers if synonyms else [],
            )
        )
    return rows


def _document(results: Iterable[DescribeConfigsResult]) -> None:
    for result in results:
        text_of = of_topic_setting if result.resource_type == TOPIC else of_broker_setting
        for row in result.configs:
            row.documentation = text_of(row.name)


def _broker_rows(
    settings: Settings, dynamic: DynamicConfig, keys: Collection[str] | None, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    rows = []
    for name in sorted({*BY_NAME, *IDLE_SETTINGS, *dynamic.own, *dynamic.of_all}):
        if keys is not None and name not in keys:
            continue
        layers = _synonyms(settings, dynamic, *next((names for names in _GROUPS if name in names), (name,)), first=name)
        rows.append(
            DescribeConfigsResourceResult(
                name=name,
                value=layers[0].value if layers else None,
                read_only=name not in DYNAMIC,
                config_source=layers[0].source if layers else DEFAULT_SOURCE,
                config_type=_type_of(name),
                synonyms=layers if synonyms else [],
            )
        )
    return rows


def _all_brokers_rows(
    dynamic: DynamicConfig, keys: Collection[str] | None, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    """What was set for all brokers at run time, and nothing else."""
    return [
        DescribeConfigsResourceResult(
            name=name,
            value=value,
            config_source=ALL_BROKERS_SOURCE,
            config_type=_type_of(name),
            synonyms=[DescribeConfigsSynonym(name, value, ALL_BROKERS_SOURCE)] if synonyms else [],
        )
        for name, value in sorted(dynamic.of_all.items())
        if keys is None or name in keys
    ]


def _synonyms(
    settings: Settings, dynamic: DynamicConfig, *names: str, first: str | None = None
) -> list[DescribeConfigsSynonym]:
    """Where the settings of these names have values, the one that counts first.

    As Kafka does, what comes before the one called `first` (the first of the names) is left out, and all where that has
    no value.
    """
    first = first or next(iter(names), None)
    layers = [
        DescribeConfigsSynonym(name, values[name], source)
        for values, source in (
            (dynamic.own, BROKER_SOURCE),
            (dynamic.of_all, ALL_BROKERS_SOURCE),
            (settings.given, STATIC_BROKER_SOURCE),
            (_DEFAULTS, DEFAULT_SOURCE),
        )
        for name in names
        if name in values
    ]
    return list(dropwhile(lambda layer: layer.name != first, layers))


def _type_of(name: str) -> int:
    """Of a broker's setting."""
    setting = BY_NAME.get(name) or IDLE_SETTINGS.get(name)
    return _LONG_TYPE if setting is None else _TYPES[setting.kind]


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


_DEFAULTS: Mapping[str, str] = {
    **{
        name: text
        for name, one in (*BY_NAME.items(), *IDLE_SETTINGS.items())
        if (text := _text(one.default)) is not None
    },
    **_INERT_DEFAULTS,
}
"""Of Kafka's settings of brokers, those that have one."""


def created_configs(
    settings: Settings, dynamic: DynamicConfig, config: Mapping[str, str]
) -> list[CreatableTopicConfigs]:
    """A new topic's settings, as the response to CreateTopics holds them."""
    return [
        CreatableTopicConfigs(name=row.name, value=row.value, config_source=row.config_source)
        for row in _topic_rows(settings, dynamic, config, None, False)
    ]
