"""DescribeConfigs for topics and for this broker. Loop thread; a topic's overrides are read on the worker.

Source: kafka.server.ConfigHelper, DescribeConfigsResponse.ConfigSource and ConfigType.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from broker.config import Settings
from broker.runtime.metadata_cache import MetadataCache
from broker.runtime.request import Request, refuse, respond
from broker.runtime.topic_config import TopicConfigCache
from broker.settings_table import BY_NAME, TOPIC_SETTINGS
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
from broker.wire.primitives import MalformedFrame

TOPIC, BROKER = 2, 4
TOPIC_SOURCE, STATIC_BROKER_SOURCE, DEFAULT_SOURCE = 1, 4, 5
_TYPES = {"bool": 1, "str": 2, "int": 5, "float": 6, "list": 7}
_BROKER_NAMES = {setting.topic_name: setting.name for setting in BY_NAME.values() if setting.topic_name}


class ConfigHandlers:
    """See the module."""

    def __init__(self, settings: Settings, broker_id: int, cache: MetadataCache, configs: TopicConfigCache) -> None:
        self._settings = settings
        self._broker_id = broker_id
        self._cache = cache
        self._configs = configs

    def handle_describe_configs(self, request: Request) -> None:
        try:
            body = DescribeConfigsRequest.decode(request.api_version, request.body)
        except MalformedFrame as error:
            refuse(request, f"DescribeConfigs: {error}")
            return
        version = request.api_version
        topics = {
            resource.resource_name: self._cache.topics[resource.resource_name].topic_id
            for resource in body.resources
            if resource.resource_type == TOPIC and resource.resource_name in self._cache.topics
        }

        def answer() -> None:
            results = [self._describe(resource, body.include_synonyms) for resource in body.resources]
            respond(request, DescribeConfigsResponse(results=results).encode(version))

        if topics:
            self._configs.load(topics, answer)
        else:
            answer()

    def _describe(self, resource: DescribeConfigsResource, synonyms: bool) -> DescribeConfigsResult:
        name, kind = resource.resource_name, resource.resource_type
        result = DescribeConfigsResult(resource_type=kind, resource_name=name)
        keys = resource.configuration_keys
        if kind == TOPIC and name in self._cache.topics:
            result.configs = _topic_rows(self._settings, self._configs.overrides(name), keys, synonyms)
        elif kind == TOPIC:
            result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            result.error_message = f"Topic '{name}' does not exist."
        elif kind == BROKER and name in ("", str(self._broker_id)):
            result.configs = _broker_rows(self._settings, keys, synonyms)
        elif kind == BROKER:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = (
                f"Unexpected broker id, expected {self._broker_id} or empty string, but received {name}"
            )
        else:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = f"Unsupported resource type: {kind}"
        return result


def _topic_rows(
    settings: Settings, overrides: Mapping[str, str], keys: Collection[str] | None, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    rows = []
    for name in sorted(TOPIC_SETTINGS):
        if keys is not None and name not in keys:
            continue
        default = settings.topic_defaults[name]
        default_source = _broker_source(settings, _BROKER_NAMES.get(name))
        row = DescribeConfigsResourceResult(
            name=name,
            value=overrides.get(name, default),
            config_source=TOPIC_SOURCE if name in overrides else default_source,
            config_type=_TYPES[TOPIC_SETTINGS[name].kind],
        )
        if synonyms:
            if name in overrides:
                row.synonyms.append(DescribeConfigsSynonym(name, overrides[name], TOPIC_SOURCE))
            row.synonyms.append(DescribeConfigsSynonym(_BROKER_NAMES.get(name, name), default, default_source))
        rows.append(row)
    return rows


def _broker_rows(
    settings: Settings, keys: Collection[str] | None, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    rows = []
    for name, setting in sorted(BY_NAME.items()):
        if keys is not None and name not in keys:
            continue
        value = settings.given.get(name, _text(setting.default))
        source = _broker_source(settings, name)
        row = DescribeConfigsResourceResult(
            name=name, value=value, read_only=True, config_source=source, config_type=_TYPES[setting.kind]
        )
        if synonyms:
            row.synonyms.append(DescribeConfigsSynonym(name, value, source))
        rows.append(row)
    return rows


def _broker_source(settings: Settings, name: str | None) -> int:
    return STATIC_BROKER_SOURCE if name is not None and name in settings.given else DEFAULT_SOURCE


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def created_configs(settings: Settings, config: Mapping[str, str]) -> list[CreatableTopicConfigs]:
    """A new topic's settings, as CreateTopics answers them."""
    return [
        CreatableTopicConfigs(name=row.name, value=row.value, config_source=row.config_source)
        for row in _topic_rows(settings, config, None, False)
    ]
