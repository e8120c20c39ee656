"""What holds for all tests: how the suite was started changes nothing of what they show; they share a Spark session."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.examples import for_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A shell that starts it in the background has it, and whatever tests start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests of the process."""
    # Imported late: most tests need no pyspark.
    from tests.support.shared_session import shared_session

    # One of several processes of the suite judges some fifty runs and small histories; a file by itself a few.
    with shared_session(many="PYTEST_XDIST_WORKER" in os.environ) as session:
        yield session


# Before a test with hypothesis is read: it keeps what it finds then.
for_all()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show beside a failure what the brokers of its cluster said."""
    report = yield
    if report.failed and report.when == "call" and isinstance(item, pytest.Function):
        # Imported late: most tests need no brokers.
        from tests.support.failure_evidence import add_evidence

        add_evidence(report, item.funcargs)
    return report
