"""`python -m benchmarks quick|full|curves`: measure both systems and write benchmarks/results/."""

from __future__ import annotations

import argparse
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import plan as plans
from benchmarks.clients import lean
from benchmarks.clients.java_tools import JavaTools
from benchmarks.clients.rdkafka import RdKafka
from benchmarks.environment import describe, load_average
from benchmarks.measure.memory import Ballast
from benchmarks.process import BenchmarkFailed
from benchmarks.report.results import write
from benchmarks.report.resume import Earlier, earlier
from benchmarks.report.summary import RowRuns
from benchmarks.rows.base import Bench
from benchmarks.runner import carry_out
from benchmarks.systems import ROOT, Cluster, highwater, kafka

RESULTS = ROOT / "benchmarks" / "results"
_PLANS = {"quick": plans.quick, "full": plans.full, "curves": plans.curves}
_NEEDED_BYTES = 12 << 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every row was tried, 1 when measuring was not possible or time ran out, 2 for wrong usage."""
    args = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    # Brokers with 10,000 partitions hold tens of thousands of files; they inherit this limit.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="highwater-bench-", dir=args.work))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            plan = plans.chosen(_PLANS[args.plan](folder), args.rows, args.rounds, args.warm_up_mb)
        except ValueError as error:
            print(f"benchmarks: {error}", file=sys.stderr)
            return 2
        if args.list:
            print("\n".join(plans.titles(plan)))
            return 0
        try:
            return _measure(plan, args, folder, stack)
        except BenchmarkFailed as error:
            print(f"benchmarks: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("benchmarks: interrupted; what was measured is in the results", file=sys.stderr)
            return 1


def _measure(plan: plans.Plan, args: argparse.Namespace, folder: Path, stack: ExitStack) -> int:
    free = shutil.disk_usage(folder).free
    if free < _NEEDED_BYTES:
        raise BenchmarkFailed(
            f"{folder}: {free >> 30} GiB are free, {_NEEDED_BYTES >> 30} GiB are needed; name another --work"
        )
    program = lean.build()
    ballast = Ballast(folder / "ballast", wanted=not args.no_pretouch)
    stack.callback(ballast.release)
    environment = describe(args.source)
    before = Earlier()
    if args.resume:
        rows = [(row.group, row.name) for phase in plan.phases for row in phase.rows]
        before = earlier(args.out, plan.name, environment, rows)
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:7.1f} {text}", flush=True)

    benches = {}
    for kind in (kafka(args.kafka_home), highwater(args.source)):
        if args.only in (None, kind.name):
            cluster = Cluster(kind, folder / kind.name)
            stack.callback(cluster.close)
            say(f"{kind.name}: serving after {cluster.start():.2f} s")
            tools = JavaTools(args.kafka_home, cluster.bootstrap, cluster.folder)
            benches[kind.name] = Bench(
                cluster, lean.Lean(program, cluster.bootstrap), tools, RdKafka(cluster.bootstrap), ballast
            )

    def keep(rows: Sequence[RowRuns]) -> None:
        environment["load average now"] = load_average()
        environment["minutes"] = round(before.minutes + (time.monotonic() - begun) / 60, 1)
        write(args.out, plan.name, environment, rows)

    def out_of_time() -> bool:
        return args.minutes is not None and time.monotonic() - begun > args.minutes * 60

    complete = carry_out(plan, benches, say, keep, before.runs, out_of_time)
    page = args.out / f"{plan.name}.md"
    if before.runs or "minutes" in environment:
        print(page.read_text(encoding="utf-8"))
        print(f"Written: {page}, .json, .svg")
    if not complete:
        print(f"benchmarks: {args.minutes} minutes are over; --resume goes on from here", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("plan", choices=sorted(_PLANS))
    parser.add_argument("--kafka-home", type=Path, metavar="FOLDER", help="an installed Kafka instead of Maven's jars")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="default: benchmarks/results")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="FOLDER", help="data of the brokers")
    parser.add_argument("--rows", metavar="PATTERN", help="only rows whose title matches this regular expression")
    parser.add_argument("--rounds", type=int, metavar="N", help="measure each row N times instead of the plan's number")
    parser.add_argument("--resume", action="store_true", help="go on from the results in --out; what is there counts")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin no row after so long; --resume does the rest")
    parser.add_argument("--warm-up-mb", type=int, metavar="N", help="warm up with N MB instead of the plan's number")
    parser.add_argument("--only", choices=["highwater", "kafka"], help="measure one system, for work on it")
    parser.add_argument("--source", type=_folder, default=ROOT, metavar="FOLDER", help="where the broker package is")
    parser.add_argument("--no-pretouch", action="store_true", help="do not fill the page cache before each run")
    parser.add_argument("--list", action="store_true", help="print the titles of the rows and end")
    return parser


def _folder(text: str) -> Path:
    folder = Path(text).resolve()
    if not (folder / "broker" / "cli.py").is_file():
        raise argparse.ArgumentTypeError(f"{text!r} holds no broker/cli.py (looked in {folder})")
    return folder


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
