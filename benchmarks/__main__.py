"""`python -m benchmarks`."""

from __future__ import annotations

import sys

from benchmarks.applications import cli as applications
from benchmarks.checkers import cli as checkers
from benchmarks.cli import main
from benchmarks.cycles import cli as cycles

arguments = sys.argv[1:]
if arguments[:1] == [applications.COMMAND]:
    sys.exit(applications.main(arguments[1:]))
if arguments[:1] == [checkers.COMMAND]:
    sys.exit(checkers.main(arguments[1:]))
if arguments[:1] == [cycles.COMMAND]:
    sys.exit(cycles.main(arguments[1:]))
sys.exit(main(arguments))
