"""With HIGHWATER_COMPILE=1 the broker's hot modules are compiled by mypyc; without it nothing is.

The sources stay what they are, and lie beside what is made of them: docs/adr/0017. `make compiled` and
`make wheel-compiled` set the variable.
"""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup

HOT = {
    "core": "coordination",
    "core/group": "commits offsets",
    "core/producers": "guards state transactions",
    "core/replication": "epochs fencing follower isr leader partition purgatory watermark",
    "core/transaction": "metadata requests",
    "log": "local_log log producers reads swap truncation",
    "log/durability": "durability",
    "log/epochs": "cache checkpoint",
    "log/files": "batch_scan",
    "log/indexes": "offset_index sparse_index time_index",
    "log/segments": "log_file log_segments segment segment_files segment_indexes staging tail_cache",
    "model": "timers",
    "net": "connection loop peer receive send slot",
    "runtime": "replica_manager",
    "runtime/coordinators": "appends held",
    "runtime/fetch": "follower_progress handler partition_reader response_reader sessions",
    "runtime/follower": "fetch_events fetcher_manager partition_fetch_state replica_fetcher response_processor",
    "runtime/group": "hosted_group last_commits offset_handlers records",
    "runtime/produce": "handler",
    "runtime/replicas": "append append_validation group_commit replica replicas transaction_gate",
    "runtime/requests": "deadlines dispatch request",
    "runtime/transaction": "handlers marker_sender markers room state verifier waiting_verifier",
    "wire": "chunks headers primitives record_batch records",
    "wire/coordinator_records": "batches scan",
    "wire/messages": "fetch fetch_request fetch_response grouping produce_codec",
}
"""What a Produce or Fetch request, an offset commit or a transaction passes through, and each record of a load of a
coordinator, by package.
"""

FILES = [f"broker/{package}/{name}.py" for package, names in HOT.items() for name in names.split()]


def extensions() -> list[Extension]:
    """Raises SystemExit where mypyc is not installed."""
    if os.environ.get("HIGHWATER_COMPILE") != "1":
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        sys.exit("HIGHWATER_COMPILE=1 needs mypyc: pip install 'mypy[mypyc]', or leave the variable out")
    # One group, whose shared library lies in the package: who copies the package copies all of it.
    made: list[Extension] = mypycify(
        ["--config-file=", "--ignore-missing-imports", *FILES], opt_level="3", multi_file=True, group_name="broker.hot"
    )
    for extension in made:
        # mypyc puts the group's headers in its package's folder and looks for them one above.
        extension.include_dirs.append("build/broker")
    return made


if __name__ == "__main__":
    setup(ext_modules=extensions())
