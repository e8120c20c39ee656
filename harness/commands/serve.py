"""`highwater serve`: its options.

Decides defaults and which figures are allowed. Must not know what is shown. Imports at the top only what costs nothing:
every command's help is put together through here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.parser import add, whole
from harness.plan.toml_source import PlanError
from harness.runs.analysis import CRASH
from harness.runs.store import DEFAULT_STORE, StoreError

if TYPE_CHECKING:
    from harness.commands.parser import Commands


def add_to(commands: Commands) -> None:
    """Add the command."""
    serve = add(
        commands,
        "serve",
        "show the runs of a store in the browser, reading only",
        codes="0 ended by SIGINT or SIGTERM, 254 wrong usage, 255 it could not listen",
        example="highwater serve --port 8080",
    )
    serve.add_argument(
        "store",
        type=Path,
        nargs="?",
        default=DEFAULT_STORE,
        metavar="STORE",
        help="where runs are kept, or a folder of nights",
    )
    serve.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen on; default: this machine")
    serve.add_argument("--port", type=whole, default=0, metavar="P", help="default: 0, one that is free")
    serve.set_defaults(command=_serve)


def _serve(options: argparse.Namespace) -> int:
    from harness.serve.app import app
    from harness.serve.guard import is_loopback
    from harness.serve.night_pages import places
    from harness.serve.server import CannotListen, serve

    if not 0 <= options.port <= 65_535:
        raise PlanError(f"--port: {options.port} is not a number from 0 to 65535")
    if not options.store.is_dir():
        raise StoreError(f"{options.store}: no such folder; a store is what `highwater test --store` writes to")
    store, nights = places(options.store)
    loopback = is_loopback(options.host)
    if not loopback:
        print(f"highwater: {options.host}: whoever reaches this address reads all of the store", file=sys.stderr)
    try:
        serve(app(store, nights, loopback_only=loopback), options.host, options.port, _say)
    except CannotListen as error:
        print(f"highwater: {error}", file=sys.stderr)
        return CRASH
    return 0


def _say(address: str) -> None:
    print(f"runs: {address} (Ctrl-C ends it)", flush=True)
