"""Options of a tool: parsed as Kafka's tools parse them, refused with exit code 1.

An option is never abbreviated, and one that takes a value may be given once only, unless it is declared otherwise.
Source: org.apache.kafka.server.util.CommandLineUtils, CommandDefaultOptions; joptsimple.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

from broker import __version__
from broker.tools.client.numbers import finite_number, whole_number
from broker.tools.client.properties import Properties
from broker.tools.client.settings import ClientSettings, client_settings

USAGE_CODE: Final = 1


class Parser(argparse.ArgumentParser):
    """For one tool, `highwater <name>`."""

    def __init__(self, name: str, description: str) -> None:
        super().__init__(prog=f"highwater {name}", description=description, allow_abbrev=False)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)
        self.add_argument("--version", action="version", version=f"highwater {__version__}")

    def error(self, message: str) -> NoReturn:
        """A message on standard error; ends with 1, as Kafka's tools do."""
        print(f"{message}\n`{self.prog} --help` lists the options", file=sys.stderr)
        self.exit(USAGE_CODE)

    def bootstrap(self, *, config: str = "--command-config", required: bool = True) -> None:
        """`--bootstrap-server`, and the option that names a file of client settings."""
        self.add_argument(
            "--bootstrap-server",
            required=required,
            metavar="HOST:PORT,…",
            help="brokers to begin with" + ("" if required else "; here or in the file of settings"),
        )
        self.add_argument(config, metavar="FILE", help="properties file with settings of the client")

    def one_action(self, options: argparse.Namespace, actions: Iterable[str]) -> str:
        """Which of these flags was given; refuses none and more than one."""
        names = list(actions)
        given = [name for name in names if getattr(options, _attribute(name))]
        if len(given) != 1:
            listed = ", ".join(f"--{name}" for name in names[:-1]) + f" or --{names[-1]}"
            self.error(f"Command must include exactly one action: {listed}")
        return given[0]

    def refuse_together(self, options: argparse.Namespace, used: str, others: Iterable[str]) -> None:
        """Refuses the first of `others` that was given beside `used`."""
        if not given(options, used):
            return
        for other in others:
            if given(options, other):
                self.error(f'Option "[{used}]" can\'t be used with option "[{other}]"')

    def require(self, options: argparse.Namespace, *names: str) -> None:
        """Refuses a command line without one of these."""
        for name in names:
            if not given(options, name):
                self.error(f'Missing required argument "[{name}]"')


class _Once(argparse.Action):
    """Keeps a value; refuses a second one."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        seen: set[str] = namespace.__dict__.setdefault("given_once", set())
        if option_string is not None and self.dest in seen:
            parser.error(f"Found multiple arguments for option {option_string[2:]}, but you asked for only one")
        seen.add(self.dest)
        setattr(namespace, self.dest, values)


def _attribute(name: str) -> str:
    return name.replace("-", "_")


def given(options: argparse.Namespace, name: str) -> bool:
    """Whether an option was used; one with a default of its own counts by whether it was named."""
    if _attribute(name) in getattr(options, "given_once", ()):
        return True
    value = getattr(options, _attribute(name))
    return isinstance(value, bool | list) and bool(value)


def whole16(text: str) -> int:
    """An argument that is a whole number of 16 bits, Java's short."""
    return _argument(text, 16)


def whole(text: str) -> int:
    """An argument that is a whole number of 32 bits, Java's int."""
    return _argument(text, 32)


def whole64(text: str) -> int:
    """An argument that is a whole number of 64 bits, Java's long."""
    return _argument(text, 64)


def number(text: str) -> float:
    """An argument that is a number, with or without a fraction: neither infinite nor `nan`."""
    found = finite_number(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"Cannot parse argument '{text}' as a number, such as 10, 0.5 or 1e6")
    return found


def _argument(text: str, bits: int) -> int:
    found = whole_number(text, bits)
    if found is None:
        wanted = f"from {-(1 << (bits - 1))} to {(1 << (bits - 1)) - 1}"
        raise argparse.ArgumentTypeError(f"Cannot parse argument '{text}' as a whole number {wanted}")
    return found


def admin_settings(options: argparse.Namespace, tool: str, file: str | None) -> ClientSettings:
    """Of --bootstrap-server and a file of settings; names that the client does not know are reported.

    Raises ToolError.
    """
    properties = Properties.load(file)
    properties.put({"bootstrap.servers": options.bootstrap_server})
    settings = client_settings(properties, f"highwater-{tool}")
    warn_unread(properties)
    return settings


def warn_unread(properties: Properties) -> None:
    """A line on standard error for each setting that this client does not know."""
    for name in properties.unread():
        print(f"WARN setting {name} is not known to this client and has no effect", file=sys.stderr)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, each column as wide as its widest cell."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return [" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
