"""What an analysis writes: results.json, series.json, and witnesses joined to the history.

Uses `coverage`, `verdicts`, `allowances` and what is below them. Verdicts and tables come in; JSON goes out for the
report, JUnit and `highwater nightly` (docs/results-format.md).
"""
