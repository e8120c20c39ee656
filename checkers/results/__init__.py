"""Verdict, results and series as JSON, for reports and for `highwater nightly`."""
