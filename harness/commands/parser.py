"""How the command line is parsed: wrong usage is exit code 254, options are written out whole.

Must not know which commands there are.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from broker.tools.client.numbers import finite_number
from harness.runs.analysis import USAGE

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction["Parser"]


VERDICT_CODES = "0 valid, 1 invalid, 2 unknown, 254 wrong usage, 255 no verdict"


_DIGITS = re.compile(r"[+-]?[0-9]{1,4000}")


def whole(text: str) -> int:
    """An argument that is a whole number, in plain digits: int() also takes `1_0` and those of other scripts."""
    if _DIGITS.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def number(text: str) -> float:
    """An argument that is a number, with or without a fraction: neither infinite nor `nan`."""
    found = finite_number(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, such as 10, 0.5 or 1e6")
    return found


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` without abbreviations: an option that a later release adds must not change what one means."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Usage and message on standard error, exit code 254."""
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def add(commands: Commands, name: str, what: str, *, codes: str, example: str) -> Parser:
    """Add a command whose --help ends with its exit codes and an example."""
    return commands.add_parser(
        name,
        help=what,
        description=what[0].upper() + what[1:] + ".",
        epilog=f"exit codes: {codes}\nexample:    {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
