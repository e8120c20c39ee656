"""The text of a setting → its value, of the setting's kind and within its range."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from broker.config.table import Setting
from broker.wire.compression import CodecMissing, Compression, check_installed

COMPRESSION_TYPE = "compression.type"
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_DOUBLE = re.compile(r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|Infinity)")
_BITS = {"int": 32, "long": 64}


class ConfigError(ValueError):
    """A setting is missing, unknown where it must be known, or has a value that cannot work."""


def given_or_default(setting: Setting, properties: Mapping[str, str]) -> Any:
    """What the properties say of it, or its default. Raises ConfigError."""
    text = properties.get(setting.name)
    if text is None or (not text.strip() and setting.kind != "str"):
        return setting.default
    return convert(setting.name, setting, text)


def convert(name: str, setting: Setting, text: str) -> object:
    """A setting's value of its kind, within its range. name: as the refusal calls it. Raises ConfigError."""
    text = text.strip()
    if setting.kind == "list":
        items = [item.strip() for item in text.split(",") if item.strip()]
        if setting.choices is not None and (not items or set(items) - set(setting.choices)):
            wrong = next((item for item in items if item not in setting.choices), "")
            raise _invalid(name, wrong, f"String must be one of: {', '.join(setting.choices)}")
        return items
    if setting.kind == "bool":
        if text.lower() not in ("true", "false"):
            raise _invalid(name, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if setting.kind == "float":
        if _DOUBLE.fullmatch(text) is None:
            raise _invalid(name, text, "Not a number of type DOUBLE")
        number = float(text)
        _check_range(name, str(number), number, setting.minimum, setting.maximum)
        return number
    if setting.kind in _BITS:
        limit = 1 << (_BITS[setting.kind] - 1)
        if not _WHOLE_NUMBER.fullmatch(text) or not -limit <= int(text) < limit:
            raise _invalid(name, text, f"Not a number of type {setting.kind.upper()}")
        _check_range(name, text, int(text), setting.minimum, setting.maximum)
        if int(text) in setting.excluded:
            least = "" if setting.minimum is None else f" from {setting.minimum}"
            most = "" if setting.maximum is None else f" to {setting.maximum}"
            raise _invalid(name, text, f"Value must be a whole number{least}{most}, but not {text}")
        return int(text)
    if setting.choices is not None and text not in setting.choices:
        raise _invalid(name, text, f"String must be one of: {', '.join(setting.choices)}")
    if setting.topic_name == COMPRESSION_TYPE:
        check_codec(name, text, codec_of(text))
    return text


def codec_of(compression_type: str) -> Compression | None:
    """The codec that a `compression.type` asks for; None leaves it to the producer."""
    if compression_type == "producer":
        return None
    return Compression.NONE if compression_type == "uncompressed" else Compression[compression_type.upper()]


def check_codec(name: str, text: str, codec: Compression | None) -> None:
    """Raises ConfigError where a setting asks for a codec that is not installed. codec: None for no particular one."""
    if codec is None:
        return
    try:
        check_installed(codec)
    except CodecMissing as missing:
        raise ConfigError(f"{name}={text!r}: {missing}") from None


def _check_range(name: str, text: str, number: float, minimum: float | None, maximum: float | None) -> None:
    if minimum is not None and number < minimum:
        raise _invalid(name, text, f"Value must be at least {minimum}")
    if maximum is not None and number > maximum:
        raise _invalid(name, text, f"Value must be no more than {maximum}")


def _invalid(name: str, text: str, why: str) -> ConfigError:
    """In the words of Kafka's ConfigException."""
    return ConfigError(f"Invalid value {text} for configuration {name}: {why}")
