"""`highwater nightly`: its options, and what is taken from the matrix file where the command line does not say.

Decides defaults and which figures are allowed. Must not know how a night is run. Imports at the top only what costs
nothing: every command's help is put together through here.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from harness.commands.parser import add, number, whole
from harness.plan.toml_source import PlanError

if TYPE_CHECKING:
    from harness.commands.parser import Commands

_GIVEN = ("seeds", "fresh_seeds", "minutes", "lanes", "retries", "keep_days", "keep_gb", "webhook", "shrink_minutes")
"""Options that count instead of what the matrix file says."""


def add_to(commands: Commands) -> None:
    """Add the command."""
    nightly = add(
        commands,
        "nightly",
        "many seeds of many run files, or of a matrix",
        codes="of the worst run: 1 invalid, over 255 no verdict, over 2 unknown, over 0 as expected; 254 wrong usage",
        example="highwater nightly examples/nightly/matrix.toml --minutes 240 --resume",
    )
    nightly.add_argument("files", type=Path, nargs="+", metavar="MATRIX_OR_FILE_OR_DIR")
    nightly.add_argument("--seeds", type=whole, metavar="N", help="seeds of each run file; needed where no matrix says")
    nightly.add_argument("--fresh-seeds", action="store_true", default=None, help="seeds that no earlier night had")
    nightly.add_argument("--out", type=Path, default=Path("nightly"), metavar="DIR", help="history, runs, pages")
    nightly.add_argument("--resume", action="store_true", help="go on with the last night, unless it is complete")
    nightly.add_argument("--nodes", metavar="local|docker|ssh", help="what the nodes are made of")
    nightly.add_argument(
        "--leave-out", action="append", default=[], metavar="AXIS=VALUE", help="of the matrix, such as nodes=docker"
    )
    nightly.add_argument("--minutes", type=number, metavar="M", help="start nothing that would end later")
    nightly.add_argument("--lanes", type=whole, metavar="N", help="runs at a time; default: one for two cores")
    nightly.add_argument("--retries", type=whole, metavar="N", help="of a run whose nodes failed; default: 1")
    nightly.add_argument("--keep-days", type=number, metavar="D", help="remove good runs that are older")
    nightly.add_argument("--keep-gb", type=number, metavar="G", help="remove the oldest good runs above this size")
    nightly.add_argument("--shrink-minutes", type=number, metavar="M", help="shrink failing runs so long; default: 60")
    nightly.add_argument("--webhook", metavar="URL", help="post the outcome there, as JSON")
    nightly.set_defaults(command=_nightly)


def _nightly(options: argparse.Namespace) -> int:
    from harness.nightly.judges import Judges
    from harness.nightly.night import Settings, run_night
    from harness.nightly.retention import Keep
    from harness.nightly.runner import Subprocesses
    from harness.nightly.schedule import lanes_of
    from harness.nightly.sources import read

    _check(options)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlanError(f"--out: {options.out} cannot be a folder: {error.strerror}") from None
    due = read(options.files, options.out, options.leave_out, options.nodes)
    given = {name: value for name in _GIVEN if (value := getattr(options, name)) is not None}
    night = replace(due.night, **given)
    if night.seeds is None:
        raise PlanError("--seeds: missing; expected a whole number from 1 on, here or as `seeds` of a matrix file")
    settings = Settings(
        seeds=night.seeds,
        resume=options.resume,
        fresh_seeds=night.fresh_seeds,
        minutes=night.minutes,
        lanes=night.lanes or lanes_of(os.cpu_count() or 1),
        retries=night.retries,
        keep=Keep(night.keep_days, night.keep_gb),
        webhook=night.webhook,
        shrink_minutes=night.shrink_minutes,
    )
    runs_each = len(due.once) * settings.seeds / settings.lanes
    with closing(Judges(options.out / "judges.log", runs_each)) as judges, terminated_as_interrupted():
        return run_night(due, options.out, settings, Subprocesses(options.nodes, judges), say=_say)


def _say(text: str) -> None:
    # At once, also into a file: a night is watched while it goes on.
    print(text, flush=True)


def _check(options: argparse.Namespace) -> None:
    """Raises PlanError for a figure that no night can have."""
    for name, least, what in (
        ("seeds", 1, "a whole number from 1 on"),
        ("minutes", 0.1, "a number of minutes from 0.1 on"),
        ("lanes", 1, "a whole number from 1 on"),
        ("retries", 0, "a whole number from 0 on"),
        ("shrink_minutes", 0, "a number of minutes from 0 on"),
        ("keep_days", 0, "a number of days from 0 on"),
        ("keep_gb", 0, "a number of gigabytes from 0 on"),
    ):
        value = getattr(options, name)
        if value is not None and not value >= least:
            raise PlanError(f"--{name.replace('_', '-')}: {value} is not {what}")
    if options.webhook is not None and not options.webhook.startswith(("http://", "https://")):
        raise PlanError(f"--webhook: {options.webhook!r} is not an http:// or https:// address")


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP end a night as Ctrl-C does; later ones are ignored while it ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
