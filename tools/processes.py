"""A plugin of pytest for the tests that run in several processes: in which order they begin, and which share a process.

Those of a file do, and those of some folders, as tests/rooms.toml says.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tools.suite import TESTS, Suite, is_within, load


class ByFileOrFolder(LoadFileScheduling):  # type: ignore[misc]
    """Gives each process the next file, or folder, when the process has done its last but one."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._suite = load()

    def _split_scope(self, nodeid: str) -> str:
        """The name of what one process runs as a whole. nodeid: as `tests/unit/broker/test_clocks.py::test_x`."""
        return process_of(super()._split_scope(nodeid), self._suite)


def process_of(file: str, suite: Suite) -> str:
    """The folder of the file, with tests/, whose tests share a process, else the file itself."""
    folders = [f"{TESTS}/{folder}" for folder in suite.one_process]
    return next((folder for folder in folders if is_within(file, [folder])), file)


def turn(file: str, suite: Suite) -> int:
    """Files of lower turns begin earlier."""
    turns = (turn for turn, path in enumerate(suite.first) if is_within(file, [f"{TESTS}/{path}"]))
    return next(turns, len(suite.first))


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFileOrFolder:
    return ByFileOrFolder(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    suite = load()
    items.sort(key=lambda item: turn(item.nodeid.partition("::")[0], suite))
