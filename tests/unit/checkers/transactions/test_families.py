"""What is not asked for costs nothing: no job, and no library that searches graphs."""

from __future__ import annotations

import subprocess
import sys
from typing import cast

from checkers.black_box.facts import Facts
from checkers.transactions.families import transactions


def test_cycles_are_looked_for_only_where_a_workload_names_them() -> None:
    facts = cast(Facts, None)
    assert set(transactions(facts, cycles=True)) - set(transactions(facts)) == {"transaction cycles"}


def test_library_of_graphs_is_loaded_only_for_cycles() -> None:
    program = "import sys, checkers.analysis; sys.exit('rustworkx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0
