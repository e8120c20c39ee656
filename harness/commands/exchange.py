"""`highwater import` and `highwater export`: histories that other tools recorded, and ours for them.

Must not know how a history is read or written.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.parser import add
from harness.runs.store import DEFAULT_STORE, StoreError, open_run

if TYPE_CHECKING:
    from harness.commands.parser import Commands

FORMATS = ("jepsen",)


def add_to(commands: Commands) -> None:
    """Add both commands."""
    bring = add(
        commands,
        "import",
        "make a run's folder of a history of Jepsen's Kafka workload, for `highwater analyze` to judge",
        codes="0 imported, 254 wrong usage, or no such history: then nothing is left in the store",
        example="highwater import store/kafka/latest/history.edn --store store --name kafka-3.9",
    )
    bring.add_argument(
        "file", type=Path, metavar="FILE", help="EDN or JSON, one operation a line or one vector of them"
    )
    bring.add_argument("--name", default="jepsen", metavar="NAME", help="of the run in the store")
    bring.add_argument("--store", type=Path, default=DEFAULT_STORE, metavar="DIR", help="where runs are kept")
    bring.set_defaults(command=_import)

    take = add(
        commands,
        "export",
        "write a run's history as EDN, for Jepsen's checker of Kafka",
        codes="0 written, 254 wrong usage, or the history cannot be read",
        example="highwater export store/demo/latest --to jepsen history.edn",
    )
    take.add_argument("run", type=Path, metavar="RUN_DIR")
    take.add_argument("--to", choices=FORMATS, required=True, help="what is to read it")
    take.add_argument("file", type=Path, metavar="FILE", help="to write; one that is there already is left alone")
    take.add_argument(
        "--dense-offsets",
        action="store_true",
        help="number each partition's known offsets 0, 1, 2 …: Jepsen keeps a log as a vector, with a place for each",
    )
    take.set_defaults(command=_export)


def _import(options: argparse.Namespace) -> int:
    from harness.exchange.jepsen_import import import_history

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", options.name):
        raise StoreError(f"--name: {options.name!r} is not a name of a-z, 0-9, '.', '_' and '-'")
    store = import_history(options.file, options.store, options.name, tuple(sys.argv))
    print(f"run: {store.path}")
    print(f"not judged: `highwater analyze {shlex.quote(str(store.path))}` judges it")
    return 0


def _export(options: argparse.Namespace) -> int:
    from harness.exchange.jepsen_export import export_history

    written = export_history(open_run(options.run), options.file, dense=options.dense_offsets)
    for note in written.notes:
        print(note)
    print(f"{written.operations:,} operations: {options.file}")
    return 0
