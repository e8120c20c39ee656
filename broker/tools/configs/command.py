"""Options and actions of `highwater configs`. Exit codes: 0, or 1 for whatever went wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from broker.tools.client import admin
from broker.tools.client.cluster import Cluster
from broker.tools.client.errors import BrokerError, TimedOut, ToolError, java_name
from broker.tools.client.properties import Properties
from broker.tools.configs import quotas
from broker.tools.configs.entities import (
    BROKERS,
    CLIENTS,
    DEFAULT_FLAGS,
    FLAGS,
    IPS,
    LOGGERS,
    METRICS,
    TOPICS,
    TYPES,
    USERS,
    Entities,
    NameAction,
    check_alter,
    check_names,
    entities,
    parse_added,
)
from broker.tools.options import Parser, admin_settings
from broker.wire.messages.describe_configs import DescribeConfigsResourceResult

_KINDS: Final = {
    TOPICS: admin.TOPIC,
    BROKERS: admin.BROKER,
    LOGGERS: admin.BROKER_LOGGER,
    METRICS: admin.CLIENT_METRICS,
}
_OWN_SOURCES: Final = {TOPICS: 1, BROKERS: 2, METRICS: 7}
_DEFAULT_BROKER_SOURCE: Final = 3


def parser() -> Parser:
    """The options of kafka-configs.sh, without those for ZooKeeper."""
    made = Parser("configs", "Describe and alter settings of topics and brokers, quotas and credentials.")
    made.bootstrap()
    add = made.add_argument
    add("--alter", action="store_true", help="set or remove settings")
    add("--describe", action="store_true", help="print settings")
    add("--all", action="store_true", help="with --describe: inherited and static settings as well")
    add("--entity-type", action="append", default=[], metavar="TYPE", help=", ".join(TYPES))
    add("--entity-name", action=NameAction, dest="entity_names", metavar="NAME", help="of the entity type before it")
    add("--entity-default", action=NameAction, dest="entity_names", nargs=0, help="the default of the entity type")
    add("--add-config", metavar="K1=V1,K2=[V2,V3]", help="settings to set; brackets hold a value with commas together")
    add("--add-config-file", metavar="FILE", help="properties file of settings to set")
    add("--delete-config", metavar="K1,K2", help="settings to remove")
    add("--force", action="store_true", help="accepted; nothing is asked")
    for flag, kind in FLAGS.items():
        add(f"--{flag}", metavar="NAME", help=f"instead of --entity-type {kind} --entity-name NAME")
    for flag, kind in DEFAULT_FLAGS.items():
        add(f"--{flag}", action="store_true", help=f"instead of --entity-type {kind} --entity-default")
    return made


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    made = parser()
    options = made.parse_args(arguments)
    if options.alter == options.describe:
        made.error("Command must include exactly one action: --describe, --alter")
    made.refuse_together(options, "describe", ("add-config", "delete-config"))
    try:
        found = entities(options)
        if options.alter:
            check_alter(found, options)
        elif LOGGERS in found.types and not any(found.names):
            raise ToolError(f"an entity name must be specified with --describe of {','.join(found.types)}")
        with Cluster(admin_settings(options, "configs", options.command_config)) as cluster:
            if options.alter:
                _alter(cluster, found, options)
            else:
                _describe(cluster, found, show_all=options.all)
    except (BrokerError, TimedOut) as error:
        print(f"Error while executing config command with args '{' '.join(arguments)}'", file=sys.stderr)
        print(java_name(error), file=sys.stderr)
        return 1
    except ToolError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def changes(options: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """What is to be set and what removed. Raises ToolError."""
    added: dict[str, str] = {}
    if options.add_config_file is not None:
        added = Properties.load(options.add_config_file).values()
        check_names(added)
    if options.add_config is not None:
        added |= parse_added(options.add_config)
    deleted = options.delete_config.split(",") if options.delete_config is not None else []
    return added, [name.strip() for name in deleted if name.strip()]


def _alter(cluster: Cluster, found: Entities, options: argparse.Namespace) -> None:
    added, deleted = changes(options)
    kind, name = found.types[0], found.names[0]
    if kind in (USERS, CLIENTS, IPS):
        quotas.alter(cluster, found, added, deleted)
    else:
        _alter_resource(cluster, kind, name, added, deleted)
    if name:
        print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")


def _alter_resource(cluster: Cluster, kind: str, name: str, added: Mapping[str, str], deleted: Sequence[str]) -> None:
    there = {one.name for one in _configs(cluster, kind, name, show_all=kind == LOGGERS, synonyms=False)}
    wrong = [one for one in (*deleted, *(added if kind == LOGGERS else ())) if one not in there]
    if wrong:
        what = "broker logger" if kind == LOGGERS else "config"
        raise ToolError(f"Invalid {what}(s): {','.join(wrong)}")
    admin.alter_configs(cluster, _KINDS[kind], name, added, deleted)


def _describe(cluster: Cluster, found: Entities, *, show_all: bool) -> None:
    kind = found.types[0]
    if kind in (USERS, CLIENTS, IPS):
        print("".join(f"{line}\n" for line in quotas.describe(cluster, found)), end="")
        return
    names = list(found.names)
    if not names:
        if kind == TOPICS:
            names = admin.topic_names(cluster)
        elif kind == BROKERS:
            cluster.metadata([])
            names = [*map(str, sorted(cluster.nodes)), ""]
        else:
            raise ToolError(f"an entity name must be specified with --describe of {kind}")
    for name in names:
        if name:
            print(f"{'All' if show_all else 'Dynamic'} configs for {kind[:-1]} {name} are:")
        else:
            print(f"Default configs for {kind} in the cluster are:")
        for one in _configs(cluster, kind, name, show_all=show_all, synonyms=True):
            print(setting_line(one))


def _configs(
    cluster: Cluster, kind: str, name: str, *, show_all: bool, synonyms: bool
) -> list[DescribeConfigsResourceResult]:
    found = admin.describe_configs(cluster, _KINDS[kind], [name], synonyms=synonyms).get(name, [])
    own = _DEFAULT_BROKER_SOURCE if kind == BROKERS and not name else _OWN_SOURCES.get(kind)
    kept = [one for one in found if show_all or own is None or one.config_source == own]
    return sorted(kept, key=lambda one: one.name)


def setting_line(one: DescribeConfigsResourceResult) -> str:
    """A setting with where its value, and those that it hides, come from."""
    sources = ", ".join(
        f"{admin.SOURCES.get(source.source, 'UNKNOWN')}:{source.name}={_text(source.value)}" for source in one.synonyms
    )
    return f"  {one.name}={_text(one.value)} sensitive={str(one.is_sensitive).lower()} synonyms={{{sources}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value
