"""What `highwater-broker` does with its arguments: read the settings, run one broker.

Exit codes: 0 shut down on a signal, 1 could not start or had to stop, 2 wrong settings.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import sys
from pathlib import Path

from broker.config.properties import PropertiesError, parse_properties
from broker.config.settings import Settings
from broker.config.values import ConfigError
from broker.core.controller.cluster_state import StoreUnavailable
from broker.log.files.log_dir import LogDirInUse, WrongIdentity
from broker.model.log_errors import LogDirFailed
from broker.server.broker_server import Broker
from broker.server.log_lines import LineHandler
from broker.zk.registration import BrokerIdInUse

EXIT_FAILED = 1
EXIT_USAGE = 2


def run(config: Path, overrides: list[str]) -> int:
    """Run a broker until SIGTERM or SIGINT. Returns the exit code; what went wrong is on stderr.

    overrides: NAME=VALUE, each beats the file's setting of that name.
    """
    logging.basicConfig(level=logging.INFO, handlers=[LineHandler()])
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    try:
        settings = _settings(config, overrides)
    except (ConfigError, PropertiesError, OSError, UnicodeDecodeError) as error:
        print(f"highwater-broker: {config}: {error}", file=sys.stderr)
        return EXIT_USAGE
    _raise_descriptor_limit()
    try:
        return Broker(settings).run()
    except (StoreUnavailable, BrokerIdInUse, LogDirInUse, LogDirFailed, WrongIdentity, OSError, ValueError) as error:
        print(f"highwater-broker: {error}", file=sys.stderr)
        return EXIT_FAILED


def _raise_descriptor_limit() -> None:
    """As many connections and segments as the system allows, as the JVM does for Kafka."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _settings(path: Path, overrides: list[str]) -> Settings:
    properties = parse_properties(path.read_text(encoding="utf-8"))
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--override {override!r}: must be NAME=VALUE")
        properties[name.strip()] = value.strip()
    return Settings.parse(properties)
