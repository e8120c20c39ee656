"""`highwater record`: one record's life on the terminal.

Decides what is printed. Must not know how a life comes about (`harness.report.life`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands.parser import add, whole
from harness.commands.steps_told import steps_told, terminal_width, wrapped

if TYPE_CHECKING:
    from harness.commands.parser import Commands
    from harness.report.life.life import Life


def add_to(commands: Commands) -> None:
    """Add the command."""
    record = add(
        commands,
        "record",
        "tell one record's life: sent, appended, committed, shown and cut by whom, and what is left of it",
        codes="0 told, 254 wrong usage, or a place at which nothing stood",
        example="highwater record store/demo/latest hw-0 301",
    )
    record.add_argument("run", type=Path, metavar="RUN_DIR")
    record.add_argument("partition", metavar="PARTITION", help="topic-number")
    record.add_argument("offset", type=whole, metavar="OFFSET")
    record.set_defaults(command=_record)


def _record(options: argparse.Namespace) -> int:
    from harness.report.life.files import RunFiles
    from harness.report.life.life import NoSuchPlace, life
    from harness.runs.store import StoreError, open_run, read_json

    store = open_run(options.run)
    names = read_json(store.results).get("names") if store.results.is_file() else None
    called = {str(value): str(name) for value, name in names.items()} if isinstance(names, dict) else {}
    try:
        found = life(RunFiles.below(store.path), store.read_run(), options.partition, options.offset, called)
    except NoSuchPlace as error:
        raise StoreError(str(error)) from None
    if found.is_empty:
        raise StoreError(" ".join([*found.missing, *(one.text for one in found.holdings)]))
    for line in told(found, terminal_width()):
        print(line)
    return 0


def told(found: Life, width: int) -> Iterator[str]:
    """Lines of at most `width` characters."""
    yield from wrapped(found.title, width)
    for text in found.fates:
        yield from wrapped(text, width, "   ")
    if found.steps:
        yield ""
    yield from steps_told(found.steps, width)
    for heading, texts in found.sections:
        yield ""
        yield from wrapped(f"{heading}:", width)
        for text in texts:
            yield from wrapped(text, width, "   ")
