"""What `highwater configs` works on: which entities the options name, and which settings are to change. No I/O."""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from broker.tools.client.errors import ToolError
from broker.tools.client.numbers import whole_number

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
LOGGERS: Final = "broker-loggers"
USERS: Final = "users"
CLIENTS: Final = "clients"
IPS: Final = "ips"
METRICS: Final = "client-metrics"
TYPES: Final = (TOPICS, CLIENTS, USERS, BROKERS, IPS, LOGGERS, METRICS)

FLAGS: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": LOGGERS,
    "ip": IPS,
}
DEFAULT_FLAGS: Final = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": IPS,
}
_KEY = re.compile(r"[a-zA-Z0-9._-]*")
_OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"


class Entities(NamedTuple):
    """types and names side by side; "" is the default entity. There may be fewer names than types."""

    types: tuple[str, ...]
    names: tuple[str, ...]


class NameAction(argparse.Action):
    """--entity-name and --entity-default, in the order in which they were given."""

    def __call__(
        self, _parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _option: str | None = None
    ) -> None:
        names = list(getattr(namespace, self.dest) or [])
        names.append(values if isinstance(values, str) else "")
        setattr(namespace, self.dest, names)


def entities(options: argparse.Namespace) -> Entities:
    """Raises ToolError for what cannot be meant."""
    by_flag = [(kind, getattr(options, flag.replace("-", "_"))) for flag, kind in FLAGS.items()]
    by_flag = [(kind, name) for kind, name in by_flag if name is not None]
    by_flag += [(kind, "") for flag, kind in DEFAULT_FLAGS.items() if getattr(options, flag.replace("-", "_"))]
    named = list(options.entity_names or [])
    if by_flag and (named or options.entity_type):
        raise ToolError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    types = tuple(options.entity_type) + tuple(kind for kind, _ in by_flag)
    names = tuple(named) + tuple(name for _, name in by_flag)
    _check(types, names)
    return Entities(types, names)


def _check(types: Sequence[str], names: Sequence[str]) -> None:
    if len(types) != len(set(types)):
        doubled = sorted({one for one in types if types.count(one) > 1})
        raise ToolError(f"Duplicate entity type(s) specified: {','.join(doubled)}")
    for one in types:
        if one not in TYPES:
            raise ToolError(
                f"Invalid entity type {one}, the entity type must be one of {', '.join(TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise ToolError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise ToolError(f"Only '{USERS}' and '{CLIENTS}' entity types may be specified together")
    if len(names) > len(types):
        raise ToolError("More entity names specified than entity types")
    for name in filter(None, names):
        if types[0] in (BROKERS, LOGGERS) and whole_number(name) is None:
            raise ToolError(f"The entity name for {types[0]} must be a valid integer broker id, but it is: {name}")
        if types[0] == IPS and not _is_host(name):
            raise ToolError(f"The entity name for {IPS} must be a valid IP or resolvable host, but it is: {name}")


def _is_host(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name) is not None
    return True


def check_alter(found: Entities, options: argparse.Namespace) -> None:
    """Raises ToolError unless each type has a name, and something is to change."""
    if found.types[0] in (USERS, CLIENTS, BROKERS, IPS):
        if not found.names:
            raise ToolError(
                "an entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not any(found.names):
        raise ToolError(f"an entity name must be specified with --alter of {','.join(found.types)}")
    if len(found.names) != len(found.types):
        raise ToolError("An entity name must be specified for every entity type")
    added, file, deleted = options.add_config, options.add_config_file, options.delete_config
    if added is not None and file is not None:
        raise ToolError("Only one of --add-config or --add-config-file must be specified")
    if added is None and file is None and deleted is None:
        raise ToolError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def parse_added(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v2,v3]`; brackets hold values with commas together and are left out. Raises ToolError."""
    found = {}
    for word in re.split(f",{_OUTSIDE_BRACKETS}", text):
        pair = re.split(rf"\s*=\s*{_OUTSIDE_BRACKETS}", word)
        if len(pair) != 2:
            raise ToolError('Invalid entity config: all configs to be added must be in the format "key=val".')
        found[pair[0].strip()] = pair[1].replace("[", "").replace("]", "").strip()
    check_names(found)
    return found


def check_names(names: Sequence[str] | dict[str, str]) -> None:
    """Raises ToolError for a setting's name with characters that none has."""
    for name in names:
        if not _KEY.fullmatch(name):
            raise ToolError(f"Invalid character found for config key: {name}")
