"""`python -m checkers.online RUN_DIR SCRATCH`: judges what a run under way has recorded, as often as it is asked.

Decides how much of the machine it takes: a processor at most, and that only as far as others leave it. Each line of its
standard input asks once; the answer is a line of JSON: `lines`, `to_ns`, `acknowledged`, `found` (`checker`, `count`,
`detail`, `partition`, `operations`, `at_ns`), or `{"ended": why}`, after which there is none. It ends with its standard
input. The folder SCRATCH has to be there; everything that it writes is below it. Exit 0, or 254 for wrong usage.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from checkers.history.run_info import UnreadableRun, load_run_info

USAGE = 254


def main(argv: Sequence[str] | None = None) -> int:
    """Answer until nobody asks any more."""
    parser = argparse.ArgumentParser(prog="python -m checkers.online", description="Judge a run while it goes on.")
    parser.add_argument("run_dir", type=Path, help="folder with run.json and a history.jsonl that grows")
    parser.add_argument("scratch", type=Path, help="an empty folder")
    parser.add_argument("--niceness", type=int, choices=range(20), default=0, metavar="0…19", help="of all it does")
    arguments = parser.parse_args(argv)
    run_dir, scratch = arguments.run_dir.absolute(), arguments.scratch.absolute()
    try:
        info = load_run_info(run_dir)
    except UnreadableRun as error:
        print(f"checkers: {error}", file=sys.stderr)
        return USAGE
    _step_aside(arguments.niceness)
    # What Java and libraries print must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ["TMPDIR"] = str(scratch)
    # Imported late: Java takes over how many processors there are, and where its files go.
    from checkers.online.growing import GrowingHistory
    from checkers.online.prefix import NoPrefix, judge_prefix
    from checkers.spark.session import QUICK_BYTES, open_session

    session = open_session("local[1]")
    history = GrowingHistory(run_dir / "history.jsonl", scratch / "history.jsonl")
    for _ in sys.stdin:
        try:
            size = history.take()
            if size >= QUICK_BYTES:
                raise NoPrefix(f"{size:,} bytes of history are more than is judged again and again")
            answer = dataclasses.asdict(judge_prefix(session, history.copy, scratch / "parquet", info))
        except (NoPrefix, OSError) as error:
            answer = {"ended": str(error)}
        print(json.dumps(answer), file=answers, flush=True)
        if "ended" in answer:
            break
    # At once: whoever asked removes the folder, and Java ends with its standard input.
    os._exit(0)


def _step_aside(niceness: int) -> None:
    """Run when others do not want to, and one thing at a time."""
    os.nice(niceness)
    if os.getsid(0) == os.getpid():
        # Where the kernel shares by session, niceness counts within one only (sched(7), autogroup).
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")
    # One task, one thread that compiles, one that collects garbage.
    os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -XX:ActiveProcessorCount=1".strip()


if __name__ == "__main__":
    sys.exit(main())
