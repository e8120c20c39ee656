"""How many examples hypothesis tries: as many as a test asks for, or a few of them in a quick run."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

VARIABLE = "HIGHWATER_TEST_EXAMPLES"
"""At most so many examples for each test; unset: as many as each test asks for."""


def examples(count: int = 100, **more: Any) -> settings:
    """The settings of every test with hypothesis: `count` examples, the same ones each time, without a deadline.

    more: further settings of hypothesis.
    """
    most = os.environ.get(VARIABLE)
    tried = count if most is None else min(count, int(most))
    return settings(derandomize=True, deadline=None, max_examples=tried, **more)


def for_all() -> None:
    """Make them the settings of the tests that name none: by default hypothesis tries other examples each time, and
    calls one that takes over 200 ms a failure.
    """
    settings.register_profile("all", examples())
    settings.load_profile("all")
