"""What all golden histories are judged under."""

from __future__ import annotations

RETENTION_MS = 60_000
"""Retention took what is so old. No history but those about it tells of a log start above 0."""
