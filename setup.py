"""With HIGHWATER_COMPILE=1 the broker's hot modules are compiled by mypyc; without it nothing is.

The sources stay what they are, and lie beside what is made of them: docs/adr/0017. `make compiled` and
`make wheel-compiled` set the variable.
"""

from __future__ import annotations

import os
import sys

from setuptools import Extension, setup

HOT = {
    "core": "epochs fencing follower isr leader partition producer_state purgatory watermark",
    "log": "batch_scan cleaner_swap durability epoch_cache epoch_file log log_base log_shortening offset_index segment"
    " segment_files segments sparse_index staging tail time_index",
    "net": "connection loop peer receive send slot timers",
    "runtime": "deadlines dispatch fetch fetch_answers fetch_read fetch_sessions fetcher group_commit produce replica"
    " replica_manager request",
    # Not messages/produce_fields: mypyc makes a NamedTuple with a memoryview among its fields that cannot be imported.
    "wire": "chunks headers messages/fetch messages/fetch_request messages/fetch_response messages/grouping"
    " messages/produce_codec primitives record_batch",
}
"""What a Produce or Fetch request passes through, by package."""

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
