"""`python -m benchmarks quick|full|curves ...`: measure both systems and write benchmarks/results/."""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks import plan as plans
from benchmarks.bench import Tools
from benchmarks.clients import lean
from benchmarks.environment import describe, load_average
from benchmarks.measure.memory import Ballast
from benchmarks.measure.os_usage import processors
from benchmarks.process import BenchmarkFailed
from benchmarks.report.results import file_name, set_aside, write
from benchmarks.report.resume import Earlier, earlier
from benchmarks.report.summary import without_figure
from benchmarks.runner import Course, carry_out
from benchmarks.site import Systems
from benchmarks.systems import ROOT, highwater, kafka
from benchmarks.time_limit import Limit
from benchmarks.work_folder import work_folder
from broker.tools.options import number

RESULTS = ROOT / "benchmarks" / "results"
_PLANS = {"quick": plans.quick, "full": plans.full, "curves": plans.curves}
_NEEDED_BYTES = 12 << 30
_DESCRIPTORS = 200_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when every plan came to its end and every figure that is judged has a run that counts, 1 when not, 2
    for wrong usage.
    """
    args = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else nohup began it
        signal.signal(signal.SIGHUP, _interrupt)
    _raise_descriptor_limit()
    with work_folder(args.work) as folder:
        whole = [_PLANS[name](folder) for name in dict.fromkeys(args.plan)]
        chosen = [plans.chosen(plan, args.rows, args.rounds, args.warm_up_mb) for plan in whole]
        wanted = [plan for plan in chosen if plan.phases]
        if not wanted:
            known = "\n  ".join(title for plan in whole for title in plans.titles(plan))
            print(f"benchmarks: no row matches {args.rows!r}; there are:\n  {known}", file=sys.stderr)
            return 2
        if args.list:
            _list(wanted)
            return 0
        try:
            return _measure_all(wanted, args, folder)
        except BenchmarkFailed as error:
            print(f"benchmarks: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("benchmarks: interrupted; what was measured is in the results", file=sys.stderr)
            return 1


def _raise_descriptor_limit() -> None:
    """Brokers with 10,000 partitions hold tens of thousands of files; they inherit the limit. Root may go beyond it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, hard))
    else:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, _DESCRIPTORS), max(hard, _DESCRIPTORS)))
        except (ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _list(wanted: Sequence[plans.Plan]) -> None:
    for plan in wanted:
        for phase in plan.phases:
            for row in phase.rows:
                print(f"{plans.title(row)}  [{phase.rounds} × {row.estimate_s:.0f} s]")
        print(f"{plan.name}: about {plan.estimate_s / 60:.0f} minutes on two processors")


@dataclass(frozen=True, slots=True)
class _Session:
    """What all plans of one call have in common."""

    args: argparse.Namespace
    folder: Path
    tools: Tools
    limit: Limit

    def say(self, text: str) -> None:
        print(f"{self.limit.elapsed_s:7.1f} {text}", flush=True)


def _measure_all(wanted: Sequence[plans.Plan], args: argparse.Namespace, folder: Path) -> int:
    free = shutil.disk_usage(folder).free
    if free < _NEEDED_BYTES:
        raise BenchmarkFailed(
            f"{folder}: {free >> 30} GiB are free, {_NEEDED_BYTES >> 30} GiB are needed; name another --work"
        )
    program = lean.build()
    with ExitStack() as stack:
        ballast = Ballast(folder / "ballast", wanted=not args.no_pretouch)
        stack.callback(ballast.release)
        session = _Session(args, folder, Tools(program, args.kafka_home, ballast), Limit(args.minutes))
        codes = []
        for number, plan in enumerate(wanted):
            session.limit.begin([later.estimate_s for later in wanted[number:]])
            codes.append(_measure(plan, session))
        return max(codes)


def _measure(plan: plans.Plan, session: _Session) -> int:
    args = session.args
    name = file_name(plan.name, partial=args.rows is not None or args.only is not None)
    pretouch = "without pretouch" if args.no_pretouch else "with pretouch"
    measured_with = f"{pretouch}, {'a warm-up for each row' if plan.warm_up is None else plan.warm_up.text}"
    environment = describe(args.source, args.kafka_home, measured_with)
    before = Earlier()
    if args.resume:
        rows = [(row.group, row.name) for phase in plan.phases for row in phase.rows]
        before = earlier(args.out, name, environment, rows)
    else:
        kept = set_aside(args.out, name)
        if kept is not None:
            session.say(f"the results that were there are {kept}.* now")
    begun = time.monotonic()

    def keep(course: Course) -> None:
        environment["load average now"] = load_average()
        environment["minutes"] = round(before.minutes + (time.monotonic() - begun) / 60, 1)
        for system, warmed in course.warmed.items():
            environment[f"warm-up of {system}"] = warmed.text
        if course.stopped is not None:
            environment["stopped"] = f"because {course.stopped}"
        write(args.out, name, environment, course.rows, processors())

    with ExitStack() as stack:
        kinds = [kind for kind in (kafka(args.kafka_home), highwater(args.source)) if args.only in (None, kind.name)]
        systems = Systems(kinds, session.tools, session.folder, session.say)
        stack.callback(systems.close)
        if plan.warm_up is not None:
            systems.start()
        course = carry_out(plan, systems, session.say, keep, before.runs, session.limit.why_over, before.parts + 1)
    page = args.out / f"{name}.md"
    print(page.read_text(encoding="utf-8"))
    print(f"Written: {page}, .json, .svg")
    if course.stopped is not None:
        print(f"benchmarks: {course.stopped}; --resume goes on from here", file=sys.stderr)
        return 1
    missing = without_figure(course.rows)
    for figure in missing:
        print(f"benchmarks: no run counts for {figure}", file=sys.stderr)
    return 1 if missing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="`python -m benchmarks clients-failover --help` tells of failover as ordinary clients see it.",
    )
    parser.add_argument("plan", nargs="+", choices=sorted(_PLANS), help="one, or several that share --minutes")
    parser.add_argument("--kafka-home", type=_path, metavar="FOLDER", help="an installed Kafka instead of Maven's jars")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="default: benchmarks/results")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="FOLDER", help="data of the brokers")
    parser.add_argument(
        "--rows", type=_pattern, metavar="PATTERN", help="only rows whose title matches this regular expression"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="measure each row N times instead of the plan's number")
    parser.add_argument("--resume", action="store_true", help="go on from the results in --out; what is there counts")
    parser.add_argument(
        "--minutes", type=number, metavar="N", help="begin no run after so long; --resume does the rest"
    )
    parser.add_argument("--warm-up-mb", type=int, metavar="N", help="warm up with N MB a pass; 0 for not at all")
    parser.add_argument("--only", choices=["highwater", "kafka"], help="measure one system, for work on it")
    parser.add_argument("--source", type=_folder, default=ROOT, metavar="FOLDER", help="where the broker package is")
    parser.add_argument("--no-pretouch", action="store_true", help="do not fill the page cache before each run")
    parser.add_argument("--list", action="store_true", help="print the titles of the rows, how long they take, and end")
    return parser


def _path(text: str) -> Path:
    """Brokers have folders of their own as working directories."""
    return Path(text).resolve()


def _folder(text: str) -> Path:
    folder = Path(text).resolve()
    if not (folder / "broker" / "cli.py").is_file():
        raise argparse.ArgumentTypeError(f"{text!r} holds no broker/cli.py (looked in {folder})")
    return folder


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    return text


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
