"""`python -m benchmarks clients-failover ...`: kill brokers under ordinary clients, and write how long those waited."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from benchmarks.applications import report
from benchmarks.applications.clients import NAMES, Client, build
from benchmarks.applications.kills import Gap, kill
from benchmarks.applications.roles import ROLES, Role, prepare
from benchmarks.environment import describe
from benchmarks.process import BenchmarkFailed
from benchmarks.report.results import set_aside
from benchmarks.systems import ROOT, Cluster, highwater, kafka
from benchmarks.work_folder import work_folder
from broker.tools.options import number

COMMAND = "clients-failover"
Pair = tuple[str, str]
"""Role and client."""
_RESULTS = ROOT / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when each client that was asked for has a gap for each role and system, 1 when not, 2 for wrong
    usage.
    """
    args = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    clients, left_out = _built(args.clients)
    left_out += [f"{client}, while the {role} is killed" for role, client in args.skip]
    for why in left_out:
        print(f"benchmarks: left out: {why}", file=sys.stderr)
    gaps: list[Gap] = []
    try:
        with work_folder(args.work) as folder:
            _measure(args, folder, clients, left_out, gaps)
    except BenchmarkFailed as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("benchmarks: interrupted; what was measured is in the results", file=sys.stderr)
        return 1
    measured = {(gap.role, gap.client, gap.system) for gap in gaps if gap.void is None}
    wanted = [pair for role in args.roles for pair in pairs(role, args.clients, args.skip)]
    complete = all((*pair, system) in measured for pair in wanted for system in {gap.system for gap in gaps})
    return 0 if gaps and complete else 1


def pairs(role: str, clients: Sequence[str], skipped: Collection[Pair]) -> list[Pair]:
    """Which of these clients are measured while that role's broker is killed."""
    return [(role, client) for client in clients if (role, client) not in skipped]


def _built(names: Sequence[str]) -> tuple[list[Client], list[str]]:
    clients, left_out = [], []
    for name in names:
        try:
            clients.append(build(name))
        except BenchmarkFailed as error:
            left_out.append(str(error))
    return clients, left_out


def _measure(
    args: argparse.Namespace, folder: Path, clients: Sequence[Client], left_out: Sequence[str], gaps: list[Gap]
) -> None:
    """Kill after kill, in turn; what is measured is written after each."""
    manner = "all clients at once" if args.together else "one client at a time"
    environment = describe(args.source, args.kafka_home, f"{manner}, {args.warm_s:g} s old at each kill")
    environment["clients"] = ", ".join(f"{client.name} {client.version}" for client in clients)
    set_aside(args.out, report.NAME)
    groups = [list(clients)] if args.together else [[client] for client in clients]
    kinds = {"highwater": lambda: highwater(args.source), "kafka": lambda: kafka(args.kafka_home)}
    kills = {"highwater": args.kills, "kafka": args.kills if args.kafka_kills is None else args.kafka_kills}
    text = ""
    with ExitStack() as stack:
        clusters = {}
        for name in [name for name in kinds if args.only in (None, name)]:
            clusters[name] = Cluster(kinds[name](), folder / name)
            stack.callback(clusters[name].close)
            clusters[name].start()
            prepare(clusters[name])
        for number in range(max(kills[name] for name in clusters)):
            for role in args.roles:
                for name, cluster in clusters.items():
                    for group in groups if number < kills[name] else []:
                        wanted = [client for client in group if (role, client.name) not in args.skip]
                        if not wanted:
                            continue
                        found = kill(cluster, cast(Role, role), wanted, args.warm_s)
                        gaps.extend(found)
                        for gap in found:
                            print(_line(number, gap), flush=True)
                        text = report.write(args.out, environment, gaps, left_out)
    print(text)


def _line(number: int, gap: Gap) -> str:
    text = f"{gap.gap_ms:.0f} ms" if gap.void is None else f"void: {gap.void}"
    failures = f", {len(gap.failures)} errors, the first {gap.failures[0]}" if gap.failures else ""
    return f"[{number + 1}] {gap.system}, {gap.role}, {gap.client}: {text} (load {gap.load:.1f}){failures}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {COMMAND}", description=__doc__)
    parser.add_argument("--clients", type=_Names(NAMES), default=NAMES, metavar="A,B", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--roles", type=_Names(ROLES), default=ROLES, metavar="A,B", help=f"of {', '.join(ROLES)}")
    parser.add_argument("--skip", type=_pairs, default=(), metavar="ROLE:CLIENT,...", help="leave out; default: none")
    parser.add_argument("--kills", type=_positive, default=50, metavar="N", help="of each role, under each client")
    parser.add_argument("--kafka-kills", type=_positive, metavar="N", help="the same for Kafka; default: as --kills")
    parser.add_argument("--only", choices=["highwater", "kafka"], help="one system")
    parser.add_argument(
        "--together", action="store_true", help="each kill under all clients at once: sooner, less exact"
    )
    parser.add_argument("--warm-s", type=number, default=12.0, metavar="N", help="age of clients at a kill, in seconds")
    parser.add_argument("--source", type=Path, default=ROOT, metavar="FOLDER", help="where the broker package is")
    parser.add_argument("--kafka-home", type=Path, metavar="FOLDER", help="an installed Kafka instead of Maven's jars")
    parser.add_argument("--out", type=Path, default=_RESULTS, metavar="FOLDER", help="default: benchmarks/results")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="FOLDER", help="data of the brokers")
    return parser


class _Names:
    """Reads names that are parted by commas."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def __call__(self, text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(text.split(",")))
        for name in names:
            if name not in self._known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(self._known)}")
        return names


def _pairs(text: str) -> tuple[Pair, ...]:
    found = tuple(
        dict.fromkeys((role, client) for role, _, client in (each.partition(":") for each in text.split(",")))
    )
    for role, client in found:
        if role not in ROLES or client not in NAMES:
            raise argparse.ArgumentTypeError(
                f"'{role}:{client}' is no role and client, of {', '.join(ROLES)} and {', '.join(NAMES)}"
            )
    return found


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of kills: 1 or more")
    return int(text)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
