"""What a run shows while it goes on: phase, rates, latencies, faults, partitions, the last error.

`Stats` takes in the lines of the history, `Picture` is what there is to show, `plain` and `table` decide how it looks,
`Console` has it shown from a thread of its own.
"""

from harness.runs.console.console import Console
from harness.runs.console.stats import Stats

__all__ = ["Console", "Stats"]
