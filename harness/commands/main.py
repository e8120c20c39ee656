"""`highwater`: the lab's command line.

Decides commands, options, exit codes and what is printed. Exit codes: 0 valid, 1 invalid, 2 unknown, 254 usage, 255
crash; of `doctor` and `heal`, which judge nothing, 1 where something is missing or left. Must not know how anything is
done, nor how the process ends otherwise (`__main__`).
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker import __version__
from broker.tools import commands as tools
from harness.commands import analyze, compare, exchange, explain, nightly, record, serve
from harness.commands.parser import VERDICT_CODES, Parser, add, number, whole
from harness.exchange.operations import ForeignHistoryError
from harness.plan.plan import ONLINE_S, Plan
from harness.plan.toml_source import PlanError
from harness.runs.analysis import CRASH, USAGE, build_report, command_again
from harness.runs.checkers_process import where_checkers_run
from harness.runs.store import DEFAULT_STORE, RunStore, StoreError, open_run
from harness.tools import extras

if TYPE_CHECKING:
    from harness.commands.parser import Commands


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments and (lacking := extras.missing()):
        names = ", ".join(extra.package for extra in lacking)
        print(f"highwater: the lab's Python packages are not all installed; missing: {names}", file=sys.stderr)
        print(f"get them with: {extras.INSTALL}", file=sys.stderr)
        return USAGE
    top, commands = _built()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in commands.choices:
        top.error(_no_command(arguments[0], commands.choices))
    options = top.parse_args(arguments)
    refusal = extras.refusal(options.name)
    if refusal is not None:
        print(f"highwater: {refusal}", file=sys.stderr)
        return USAGE
    try:
        code: int = options.command(options)
    except (PlanError, StoreError, ForeignHistoryError) as error:
        print(f"highwater: {error}", file=sys.stderr)
        return USAGE
    return code


def parser() -> Parser:
    """Of the whole command line."""
    return _built()[0]


def _no_command(word: str, lab: Iterable[str]) -> str:
    known = [*lab, *tools.COMMANDS]
    like = difflib.get_close_matches(word, known, n=1)
    meant = f" (did you mean {like[0]}?)" if like else ""
    return f"{word!r} is not one of {', '.join(lab)}, nor, for running clusters, of {', '.join(tools.COMMANDS)}{meant}"


def _built() -> tuple[Parser, Commands]:
    top = Parser(
        prog="highwater",
        description="Runs a cluster, breaks it, and judges what it promised.",
        epilog=f"Exit codes of what judges: {VERDICT_CODES}. "
        f"Tools for running clusters, each with its own --help: {', '.join(tools.COMMANDS)}.",
    )
    top.add_argument("--version", action="version", version=f"highwater {__version__}")
    commands = top.add_subparsers(required=True, metavar="command", dest="name")

    test = add(
        commands,
        "test",
        "carry out a run file and judge it",
        codes=VERDICT_CODES,
        example="highwater test examples/runs/demo.toml --seed 7",
    )
    test.add_argument("file", type=Path, metavar="RUN.toml")
    test.add_argument("--seed", type=whole, metavar="N", help="instead of the run file's, or of one drawn at random")
    test.add_argument("--nodes", metavar="local|docker|ssh", help="what the nodes are made of")
    test.add_argument(
        "--zookeeper", metavar="H:P[,…][/C]", help="an ensemble of yours, instead of one made for the run"
    )
    test.add_argument("--time-limit", type=number, metavar="S", help="seconds of the main phase")
    test.add_argument("--rate", type=number, metavar="R", help="client operations per second, all processes together")
    test.add_argument("--concurrency", type=whole, metavar="N", help="client processes in all")
    test.add_argument(
        "--online",
        type=number,
        nargs="?",
        const=ONLINE_S,
        metavar="SECONDS",
        help="judge what is recorded while the run goes on, every so many seconds (10)",
    )
    test.add_argument(
        "--stop-on-invalid",
        action="store_true",
        help="end the load once the run is invalid; judges it while it goes on",
    )
    test.add_argument("--store", type=Path, default=DEFAULT_STORE, metavar="DIR", help="where runs are kept")
    test.add_argument("--spark-master", metavar="M", help="a Spark cluster, instead of local[*]")
    test.add_argument("--no-analysis", action="store_true", help="record only; exit 0 when that worked")
    test.set_defaults(command=_test)

    analyze.add_to(commands)

    report = add(
        commands,
        "report",
        "make a judged run's report again",
        codes="0 made, 254 wrong usage, 255 it could not be made",
        example="highwater report store/demo/latest",
    )
    report.add_argument("run", type=Path, metavar="RUN_DIR")
    report.set_defaults(command=_report)

    doctor = add(
        commands,
        "doctor",
        "say what is there, what is missing, which faults and nodes are available",
        codes="0 all that runs need is there, 1 something is missing, 254 wrong usage",
        example="highwater doctor --spark",
    )
    doctor.add_argument("--spark", action="store_true", help="also run a small Spark job, which takes 10 s or more")
    doctor.set_defaults(command=_doctor)

    heal = add(
        commands,
        "heal",
        "remove what runs that died have left",
        codes="0 nothing is left, 1 something could not be removed, 254 wrong usage",
        example="highwater heal",
    )
    heal.set_defaults(command=_heal)

    explain.add_to(commands)
    record.add_to(commands)
    nightly.add_to(commands)
    serve.add_to(commands)
    compare.add_to(commands)
    exchange.add_to(commands)
    return top, commands


def _test(options: argparse.Namespace) -> int:
    # Plugs nodes, systems and nemesis together; the other commands do without their packages.
    from harness.nodes.docker_engine import EngineMissing
    from harness.nodes.docker_image import ImageMissing
    from harness.nodes.factory import enter_sandbox, needs_sandbox
    from harness.nodes.outside_gate import open_gate
    from harness.nodes.sandbox import SandboxUnavailable, inside_sandbox
    from harness.plan.zookeeper_address import parse as parse_address
    from harness.runs import run
    from harness.runs.run_files import load
    from harness.workloads import prepared

    plan: Plan = load(options.file).with_overrides(
        seed=options.seed,
        nodes=options.nodes,
        zookeeper=options.zookeeper,
        time_limit_s=options.time_limit,
        rate=options.rate,
        concurrency=options.concurrency,
        online_s=options.online,
        stop_on_invalid=options.stop_on_invalid,
    )
    run.check(plan)
    checkers = where_checkers_run(options.spark_master)
    try:
        if not inside_sandbox() and needs_sandbox(plan.nodes.kind, plan.nodes.hosts):
            # A sandbox has no way out: what comes from elsewhere is fetched, or led in, before.
            prepared(plan)
            if plan.nodes.zookeeper is not None:
                open_gate(parse_address(plan.nodes.zookeeper).servers)
        enter_sandbox(plan.nodes.kind, plan.nodes.hosts, hold_interrupt=True)
    except (SandboxUnavailable, EngineMissing, ImageMissing) as error:
        print(f"highwater: {plan.nodes.kind} nodes: {error}", file=sys.stderr)
        return CRASH
    ended = run.run(plan, run.Options(options.store, tuple(sys.argv), checkers, not options.no_analysis))
    if ended.problem is not None:
        print(f"highwater: {ended.problem}", file=sys.stderr)
    if ended.judged is not None:
        analyze.print_judged(ended.judged)
    elif options.no_analysis and ended.problem is None:
        print(f"not judged: `{command_again(ended.store)}` judges it")
    print(f"run: {ended.store.path}")
    return ended.exit_code


def _report(options: argparse.Namespace) -> int:
    store: RunStore = open_run(options.run)
    report, problem = build_report(store)
    if report is None:
        print(f"highwater: no report: {problem}", file=sys.stderr)
        return CRASH
    print(f"report: {report}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from harness.commands.doctor import main as doctor
    from harness.commands.faults import fault_rows

    return doctor(fault_rows, spark=options.spark)


def _heal(_options: argparse.Namespace) -> int:
    from harness.commands.heal import main as heal

    return heal()
