"""`python -m checkers RUN_DIR`: judge a recorded run. Exit 0 valid, 1 invalid, 2 unknown, 254 usage, 255 crash.

`--list` prints the checkers' names instead, one a line, and exits with 0. `--listen SOCKET` judges whatever is asked
for there (`checkers.warm`) until the standard input ends.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from checkers.history.run_info import UnreadableRun
from checkers.verdicts.catalogue import BY_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXIT = {"valid": 0, "invalid": 1, "unknown": 2}
USAGE, CRASH = 254, 255


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(USAGE)


class _ListCheckers(argparse.Action):
    """As argparse's `version` action: print, and exit without looking at the other arguments."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        print("\n".join(BY_NAME))
        parser.exit()


def main(argv: Sequence[str] | None = None, *, spark: SparkSession | None = None) -> int:
    """Analyse one run folder; the reason of a crash goes to stderr. spark: a session that goes on afterwards."""
    parser = _Parser(prog="python -m checkers", description="Judge a recorded run with Spark.")
    parser.add_argument("run_dir", type=Path, nargs="?", help="folder with run.json, history.jsonl and evidence/")
    parser.add_argument("--spark-master", help="any Spark master; default: spark-submit's, or all cores of this machine")
    parser.add_argument(
        "--spark-conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, as spark.executor.memory=8g; goes before those of the checkers",
    )
    parser.add_argument("--progress", type=Path, metavar="FILE", help="say there how far it is: jobs done, jobs in all")
    parser.add_argument(
        "--listen", type=Path, metavar="SOCKET", help="judge what is asked for there until the standard input ends"
    )
    parser.add_argument("--list", action=_ListCheckers, nargs=0, help="print the names of all checkers, and exit")
    arguments = parser.parse_args(argv)
    if (arguments.run_dir is None) == (arguments.listen is None):
        parser.error("needs RUN_DIR or --listen SOCKET, not both")
    if arguments.listen is not None:
        if arguments.spark_master is not None or arguments.progress is not None or arguments.spark_conf:
            parser.error("--listen: goes with no other option; --progress belongs to what is asked for")
        _listen(parser, arguments.listen)
    where = _Where(arguments.spark_master, dict(_setting(parser, text) for text in arguments.spark_conf), spark)
    return _judge(arguments.run_dir, arguments.progress, where)


@dataclass(frozen=True, slots=True)
class _Where:
    """What Spark judges by: master and settings of a session to be opened, or one that is there."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    session: SparkSession | None = None


def _setting(parser: argparse.ArgumentParser, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        parser.error(f"--spark-conf: {text!r} is no setting of Spark's; one is spark.executor.memory=8g")
    return name, value


def _listen(parser: argparse.ArgumentParser, path: Path) -> NoReturn:
    from checkers.warm import listen

    try:
        listen(path, lambda run_dir, progress, session: _judge(run_dir, progress, _Where(session=session)))
    except OSError as error:
        parser.error(f"--listen: {path}: there can be no socket: {error.strerror}")


def _judge(run_dir: Path, progress: Path | None, where: _Where) -> int:
    try:
        # Imported late, so that --help needs no pyspark.
        from checkers.analysis import analyse

        analysis = analyse(
            run_dir, spark_master=where.master, spark_conf=where.conf, spark=where.session, progress_file=progress
        )
    except UnreadableRun as error:
        print(f"checkers: {error}", file=sys.stderr)
        return CRASH
    except Exception as error:
        traceback.print_exc()
        print(f"checkers: crashed: {type(error).__name__}: {error}", file=sys.stderr)
        if where.master is not None and "FileNotFoundException" in str(error):
            print(
                f"checkers: a worker of {where.master} lacks a file of {run_dir}: the run's folder has to be one that all"
                " of them share with the driver (docs/scale.md)",
                file=sys.stderr,
            )
        return CRASH
    _print(analysis.sentence)
    return _EXIT[analysis.verdict]


def _print(sentence: str) -> None:
    """To stdout, which may be gone or full: the verdict is in results.json, and the exit code says it too."""
    try:
        print(sentence, flush=True)
    except OSError as error:
        print(f"checkers: the verdict's sentence could not be printed: {error}", file=sys.stderr)
        # Else the interpreter tries again when it ends, and its own exit code takes the verdict's place.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
