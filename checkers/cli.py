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
from checkers.spark.places import UnknownPlace, named
from checkers.verdicts.catalogue import BY_NAME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXIT = {"valid": 0, "invalid": 1, "unknown": 2}
USAGE, CRASH = 254, 255
_LACKS_A_FILE = ("FILE_NOT_EXIST", "FileNotFoundException", "FileNotFoundError")


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
    parser.add_argument(
        "run_dir",
        nargs="?",
        metavar="RUN_DIR",
        help="folder with run.json, history.jsonl and evidence/, or its URI where Hadoop knows it",
    )
    parser.add_argument(
        "--into", type=Path, metavar="DIR", help="a new folder for what is read of a URI, and for the results as well"
    )
    parser.add_argument("--spark-master", help="a Spark master; default: spark-submit's, or all cores of this machine")
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
    parser.add_argument(
        "--many", action="store_true", help="with --listen: of ten runs or more, of which the first take longer"
    )
    parser.add_argument("--list", action=_ListCheckers, nargs=0, help="print the names of all checkers, and exit")
    arguments = parser.parse_args(argv)
    if (arguments.run_dir is None) == (arguments.listen is None):
        parser.error("needs RUN_DIR or --listen SOCKET, not both")
    if arguments.listen is not None:
        others = (arguments.spark_master, arguments.progress, arguments.spark_conf or None, arguments.into)
        if any(other is not None for other in others):
            parser.error("--listen: goes with --many alone; --progress belongs to what is asked for")
        _listen(parser, arguments.listen, many=arguments.many)
    if arguments.many:
        parser.error("--many: goes with --listen alone")
    where = _Where(arguments.spark_master, dict(_setting(parser, text) for text in arguments.spark_conf), spark)
    run_dir = _run_dir(parser, arguments.run_dir)
    if arguments.into is not None:
        _check_into(parser, run_dir, arguments.into)
    return _judge(run_dir, arguments.progress, where, arguments.into)


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


def _run_dir(parser: argparse.ArgumentParser, text: str) -> Path | str:
    try:
        return named(text)
    except UnknownPlace as error:
        parser.error(str(error))


def _check_into(parser: argparse.ArgumentParser, run_dir: Path | str, into: Path) -> None:
    if isinstance(run_dir, Path):
        parser.error(f"--into: goes with a URI; {run_dir} is a folder, in which results are written")
    for taken in (into, into / "run.json", into / "evidence"):
        if taken.exists() and (taken != into or not into.is_dir()):
            parser.error(f"--into: {taken} is there; should be a folder without a run")


def _listen(parser: argparse.ArgumentParser, path: Path, *, many: bool) -> NoReturn:
    from checkers.warm import listen

    try:
        listen(path, lambda run_dir, progress, session: _judge(run_dir, progress, _Where(session=session)), many)
    except OSError as error:
        parser.error(f"--listen: {path}: there can be no socket: {error.strerror}")


def _judge(run_dir: Path | str, progress: Path | None, where: _Where, into: Path | None = None) -> int:
    try:
        # Imported late, so that --help needs no pyspark.
        from checkers.analysis import analyse

        analysis = analyse(
            run_dir,
            spark_master=where.master,
            spark_conf=where.conf,
            spark=where.session,
            progress_file=progress,
            into=into,
        )
    except (UnreadableRun, UnknownPlace) as error:
        print(f"checkers: {error}", file=sys.stderr)
        return CRASH
    except Exception as error:
        traceback.print_exc()
        print(f"checkers: crashed: {type(error).__name__}: {error}", file=sys.stderr)
        if any(sign in str(error) for sign in _LACKS_A_FILE):
            print(
                f"checkers: who was to read a file of {run_dir} lacks it: where Spark has workers elsewhere, a run's"
                " folder has to be one that all of them share with the driver (docs/scale.md)",
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
