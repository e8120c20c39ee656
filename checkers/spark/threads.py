"""Threads that plan and run queries, several at a time.

Spark asks the stack of each thread, for every step of a query that it carries out, where in the program that was asked
for; only its web page would show it, which is off here. A thread that has said it once is not asked again: that is a
twentieth of what Java takes for a small judgement.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pyspark import SparkContext

_SITE = {"callSite.short": "checkers", "callSite.long": "checkers"}


def threads(at_once: int) -> ThreadPoolExecutor:
    """A pool of so many, for the session that runs by then."""
    return ThreadPoolExecutor(at_once, initializer=name_site)


def name_site() -> None:
    """For the thread that calls it. Nothing where no session runs."""
    context = SparkContext._active_spark_context
    if context is not None:
        for name, value in _SITE.items():
            context.setLocalProperty(name, value)
