"""`highwater-broker --config server.properties`: run one broker.

Loads next to nothing before SIGTERM and SIGINT have a handler: most of a start's first second goes into loading the
rest, and a signal in that time is no error.
Exit codes: 0 shut down on a signal, 1 could not start or had to stop, 2 wrong usage or settings.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit code; wrong usage raises SystemExit(2)."""
    for name in _STOP_SIGNALS:
        signal.signal(name, _stop_before_start)
    import argparse
    from pathlib import Path

    from broker import __version__

    parser = argparse.ArgumentParser(prog="highwater-broker", description="Run one highwater broker.")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="server.properties, Kafka's names")
    parser.add_argument(
        "--override", action="append", default=[], metavar="NAME=VALUE", help="a setting that beats the file's"
    )
    parser.add_argument("--version", action="version", version=f"highwater {__version__}")
    args = parser.parse_args(argv)
    from broker.server.command import run

    return run(args.config, args.override)


def _stop_before_start(number: int, _: FrameType | None) -> None:
    """Nothing is opened yet. Ends here: an exception could come up in the middle of any module that is being loaded."""
    os.write(2, f"highwater-broker: {signal.Signals(number).name} before the start: stopping\n".encode())
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
