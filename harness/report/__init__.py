"""One offline HTML file per run, made from results.json, series.json and run.json alone.

`build(run_dir)` writes `report.html` and returns its path. The page names missing inputs.
"""

from __future__ import annotations

from harness.report.build import ReportError, build

__all__ = ["ReportError", "build"]
