"""Imports kafka-python before the tests do: on Python 3.11 and 3.12 its import warns, and warnings are errors."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol  # noqa: F401
