"""DescribeConfigs for topics and for this broker. Loop thread; a topic's overrides are read on the worker.

Source: kafka.server.ConfigHelper, DescribeConfigsResponse.ConfigSource and ConfigType.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from broker.config.settings import Settings
from broker.config.table import BY_NAME, INERT_TOPIC_SETTINGS, TOPIC_SETTINGS
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
_BROKER_NAMES = {
    **{setting.topic_name: (setting.name,) for setting in BY_NAME.values() if setting.topic_name},
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "flush.ms": ("log.flush.interval.ms",),
}
"""Topic settings → the broker's settings that give their default, the one that counts first."""


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
            result.error_message = clipped(f"Topic '{name}' does not exist.")
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
    for name in sorted({*TOPIC_SETTINGS, *overrides}):
        if keys is not None and name not in keys:
            continue
        if name not in TOPIC_SETTINGS:
            rows.append(_idle_row(name, overrides[name], synonyms))
            continue
        default = settings.topic_defaults[name]
        broker_name = _broker_name(settings, dynamic, name)
        default_source = DEFAULT_SOURCE if broker_name is None else _source(settings, dynamic, broker_name)
        row = DescribeConfigsResourceResult(
            name=name,
            value=overrides.get(name, default),
            config_source=TOPIC_SOURCE if name in overrides else default_source,
            config_type=_TYPES[TOPIC_SETTINGS[name].kind],
        )
        if synonyms:
            if name in overrides:
                row.synonyms.append(DescribeConfigsSynonym(name, overrides[name], TOPIC_SOURCE))
            if broker_name is not None:
                row.synonyms += _broker_synonyms(settings, dynamic, broker_name)
            elif name not in overrides:
                row.synonyms.append(DescribeConfigsSynonym(name, default, DEFAULT_SOURCE))
        rows.append(row)
    return rows


def _idle_row(name: str, value: str, synonyms: bool) -> DescribeConfigsResourceResult:
    """An override that this broker does not go by."""
    inert = INERT_TOPIC_SETTINGS.get(name)
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        config_source=TOPIC_SOURCE,
        config_type=_UNKNOWN_TYPE if inert is None else _TYPES[inert.kind],
        synonyms=[DescribeConfigsSynonym(name, value, TOPIC_SOURCE)] if synonyms else [],
    )


def _broker_rows(
    settings: Settings, dynamic: DynamicConfig, keys: Collection[str] | None, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    rows = []
    for name in sorted({*BY_NAME, *dynamic.own, *dynamic.of_all}):
        if keys is not None and name not in keys:
            continue
        layers = _broker_synonyms(settings, dynamic, name)
        row = DescribeConfigsResourceResult(
            name=name,
            value=layers[0].value,
            read_only=name not in DYNAMIC,
            config_source=layers[0].source,
            config_type=_TYPES[BY_NAME[name].kind] if name in BY_NAME else _LONG_TYPE,
        )
        if synonyms:
            row.synonyms = layers
        rows.append(row)
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
            config_type=_TYPES[BY_NAME[name].kind] if name in BY_NAME else _LONG_TYPE,
            synonyms=[DescribeConfigsSynonym(name, value, ALL_BROKERS_SOURCE)] if synonyms else [],
        )
        for name, value in sorted(dynamic.of_all.items())
        if keys is None or name in keys
    ]


def _broker_synonyms(settings: Settings, dynamic: DynamicConfig, name: str) -> list[DescribeConfigsSynonym]:
    """Where a broker's setting has a value, the one that counts first."""
    layers = [
        DescribeConfigsSynonym(name, values[name], source)
        for values, source in (
            (dynamic.own, BROKER_SOURCE),
            (dynamic.of_all, ALL_BROKERS_SOURCE),
            (settings.given, STATIC_BROKER_SOURCE),
        )
        if name in values
    ]
    if name in BY_NAME:
        layers.append(DescribeConfigsSynonym(name, _text(BY_NAME[name].default), DEFAULT_SOURCE))
    return layers


def _broker_name(settings: Settings, dynamic: DynamicConfig, topic_name: str) -> str | None:
    """The broker's setting from which a topic has its default, None where there is none."""
    names = _BROKER_NAMES.get(topic_name, ())
    for name in names:
        if name in dynamic.own or name in dynamic.of_all or name in settings.given:
            return name
    return names[-1] if names else None


def _source(settings: Settings, dynamic: DynamicConfig, name: str) -> int:
    return _broker_synonyms(settings, dynamic, name)[0].source


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def created_configs(
    settings: Settings, dynamic: DynamicConfig, config: Mapping[str, str]
) -> list[CreatableTopicConfigs]:
    """A new topic's settings, as the response to CreateTopics holds them."""
    return [
        CreatableTopicConfigs(name=row.name, value=row.value, config_source=row.config_source)
        for row in _topic_rows(settings, dynamic, config, None, False)
    ]
