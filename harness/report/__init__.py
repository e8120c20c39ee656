"""One offline HTML file per run, made from results.json, series.json and run.json alone.

`build(run_dir)` writes `report.html` and returns its path. Missing inputs are named in the page, never papered over.
"""

from __future__ import annotations

from harness.report.build import ReportError, build

__all__ = ["ReportError", "build"]
