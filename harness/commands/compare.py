"""`highwater compare`: two runs side by side on the terminal.

Must not know what of a run is compared.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.parser import add
from harness.runs.store import open_run, read_json

if TYPE_CHECKING:
    from harness.commands.parser import Commands
    from harness.serve.compare import Judged


def add_to(commands: Commands) -> None:
    """Add the command."""
    compare = add(
        commands,
        "compare",
        "show two runs side by side: settings that differ, verdicts, figures",
        codes="0 shown, 254 wrong usage",
        example="highwater compare store/demo/20260101T020000.000Z store/demo/latest",
    )
    compare.add_argument("a", type=Path, metavar="RUN_DIR")
    compare.add_argument("b", type=Path, metavar="RUN_DIR")
    compare.set_defaults(command=_compare)


def _compare(options: argparse.Namespace) -> int:
    from harness.serve.compare import as_text, compare

    print(as_text(compare(_read(options.a), _read(options.b)), (str(options.a), str(options.b))), end="")
    return 0


def _read(path: Path) -> Judged:
    from harness.serve.compare import Judged

    store = open_run(path)
    return Judged(store.read_run(), read_json(store.results) if store.results.exists() else {})
