"""The names of the tools, each with the module that carries it out, which is imported when it is asked for.

`python -m broker.tools NAME …` does the same as `highwater NAME …`.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from broker.tools.output import forget_output

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "topics": ("broker.tools.topics.command", "create, describe, change and delete topics"),
    "configs": ("broker.tools.configs.command", "describe and change settings of topics, brokers, users and clients"),
    "groups": ("broker.tools.groups.command", "list, describe and delete consumer groups, reset their offsets"),
    "leader-election": ("broker.tools.leader_election", "elect preferred leaders, or unclean ones"),
    "log-dirs": ("broker.tools.log_dirs", "describe the log dirs of brokers"),
    "reassign": ("broker.tools.reassign.command", "give partitions other replicas"),
    "transactions": ("broker.tools.transactions.command", "look at transactions, end hanging ones"),
    "produce": ("broker.tools.produce.command", "send each line of standard input as a record"),
    "perf": ("broker.tools.perf.command", "measure how fast a cluster takes and gives records"),
    "consume": ("broker.tools.consume.command", "print records of topics"),
}
"""Module with `run(arguments) -> exit code`, and what the command is for."""
_INTERRUPTED: Final = 130


_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What writing to a file may end in, and no connection does."""


def run(name: str, arguments: Sequence[str]) -> int:
    """One of COMMANDS; returns its exit code. Wrong usage raises SystemExit(1)."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        print(f"highwater {name}: standard output is closed", file=sys.stderr)
        return 1
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of topics, and the help, need not be in the terminal's character set.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            code: int = importlib.import_module(COMMANDS[name][0]).run(arguments)
        finally:
            # Also of --help, which ends by SystemExit.
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough.
        forget_output()
        return 1
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename is not None:
            raise
        print(f"highwater {name}: standard output cannot be written: {error.strerror}", file=sys.stderr)
        forget_output()
        return 1
    return code
