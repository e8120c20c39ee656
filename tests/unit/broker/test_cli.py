"""A signal while the broker's modules are still being loaded ends the process without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Sends itself a signal when a module is about to be loaded; what it loads first is the command's own.
_SIGNALLED = """
import os, signal, sys

class Signalled:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), int(sys.argv[2]))

sys.meta_path.insert(0, Signalled())
import broker.cli
sys.exit(broker.cli.main(["--config", "/nowhere/server.properties"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["argparse", "broker.server.command", "kazoo.client", "broker.server.broker_server"])
def test_signal_while_modules_are_loaded_is_no_error(module: str, number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SIGNALLED, module, str(int(number))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert done.stderr == f"highwater-broker: {number.name} before the start: stopping\n"
    assert done.returncode == 0


def test_command_loads_nothing_of_the_broker_before_it_handles_signals() -> None:
    code = "import sys, broker.cli; print([name for name in sys.modules if name.startswith(('broker.', 'kazoo'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout == "['broker.cli']\n"


def test_missing_settings_file_is_named() -> None:
    code = "import sys, broker.cli; sys.exit(broker.cli.main(['--config', '/nowhere/server.properties']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "/nowhere/server.properties" in done.stderr
