"""`highwater perf`: the word behind it says which of the two tools is meant."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from broker.tools.perf import consumer, producer


def run(arguments: Sequence[str]) -> int:
    """Carry one command line out; returns the exit code."""
    match arguments:
        case ["producer", *rest]:
            return producer.run(rest)
        case ["consumer", *rest]:
            return consumer.run(rest)
        case _:
            asked = list(arguments) in (["--help"], ["-h"])
            print("usage: highwater perf producer|consumer OPTIONS", file=sys.stdout if asked else sys.stderr)
            return 0 if asked else 1
