"""How the program `highwater` ends where no command decides it: lost output, errors of its own, Ctrl-C at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import ROOT
from tests.support.processes import command_lines
from tests.support.wait import eventually

PROGRAM = (sys.executable, "-m", "harness.commands")
TO_NOBODY = "import os, sys; from harness.commands import output; output.survive_loss(); "


def _with_nobody_reading(*argv: str, descriptors: tuple[int, ...] = (1,)) -> int:
    """The exit code of a program whose output goes into pipes that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    out, err = (writing if number in descriptors else subprocess.DEVNULL for number in (1, 2))
    try:
        return subprocess.run(argv, cwd=ROOT, timeout=120, check=False, stdout=out, stderr=err).returncode
    finally:
        os.close(writing)


@pytest.mark.parametrize("descriptors", [(1,), (2,), (1, 2)], ids=["stdout", "stderr", "both"])
def test_output_lost_to_nobody_leaves_the_exit_code(tmp_path: Path, descriptors: tuple[int, ...]) -> None:
    """Usage errors write to stderr, help to stdout."""
    assert _with_nobody_reading(*PROGRAM, "analyze", str(tmp_path / "none"), descriptors=descriptors) == 254
    assert _with_nobody_reading(*PROGRAM, "--help", descriptors=descriptors) == 0
    assert _with_nobody_reading(*PROGRAM, "nothing", descriptors=descriptors) == 254


def test_output_lost_in_the_middle_is_dropped_for_children_too(tmp_path: Path) -> None:
    """More than a pipe holds, so that a write fails while the program still has much to say."""
    code = (
        TO_NOBODY + "import subprocess\n"
        "for number in range(100_000): print('line', number)\n"
        "sys.stdout.flush()\n"
        "assert os.path.samestat(os.fstat(1), os.stat(os.devnull))\n"
        "sys.exit(subprocess.run(['echo', 'from a child']).returncode or 7)\n"
    )
    script = f'{sys.executable} -c "$CODE" | head -1; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env={**os.environ, "CODE": code}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "line 0\n", "")


def test_output_that_is_closed_from_the_start_is_no_file_of_the_run() -> None:
    code = TO_NOBODY + "file = open('/dev/zero'); print('x'); sys.exit(8 if file.fileno() > 2 and sys.stdout else 9)"
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "$CODE" >&- 2>&-'], cwd=ROOT, env={**os.environ, "CODE": code}, timeout=60
    )
    assert done.returncode == 8


def test_output_that_is_read_arrives_as_it_was_written() -> None:
    code = TO_NOBODY + "print('π', flush=True); print('e', file=sys.stderr); print(sys.stdout.isatty(), end='')"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, "π\nFalse", b"e\n")


@pytest.mark.parametrize("error", ["ValueError", "BaseException"])
def test_an_error_that_nobody_caught_is_a_crash_in_one_line(error: str) -> None:
    """Python's own exit code would be 1, which means invalid."""
    code = (
        "import sys; from harness.commands import __main__, main\n"
        f"def broken(argv=None): raise {error}('two\\nlines')\n"
        "main.main = broken\n"
        "sys.exit(__main__.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 255
    assert done.stderr.startswith(f"highwater: ended by an error of its own: {error}: two lines (")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("verdict", ["valid", "invalid"])
def test_checkers_exit_code_is_the_verdicts_also_where_nothing_can_be_printed(verdict: str) -> None:
    code = (
        "import sys, types; from checkers import cli\n"
        f"said = types.SimpleNamespace(sentence='It is.', verdict={verdict!r})\n"
        "sys.modules['checkers.analysis'] = types.SimpleNamespace(analyse=lambda *_, **__: said)\n"
        "sys.exit(cli.main(['folder']))\n"
    )
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == {"valid": 0, "invalid": 1}[verdict]
    assert done.stderr.startswith("checkers: the verdict's sentence could not be printed: ")


POINTS = [
    ("signal", 1),
    ("harness.plan.plan", 1),
    ("harness.nodes.sandbox", 1),
    ("harness.runs.run", 1),
    # In the sandbox, where the program is started a second time.
    ("encodings.utf_8", 2),
    ("harness.plan.plan", 2),
    ("harness.nodes.sandbox", 2),
    ("harness.runs.run", 2),
    ("harness.nodes.local", 1),
]


@pytest.mark.parametrize(("module", "time_of_it"), POINTS, ids=[f"{module}-{number}" for module, number in POINTS])
def test_interrupt_in_the_first_second_is_quiet_and_leaves_nothing(
    tmp_path: Path, module: str, time_of_it: int
) -> None:
    """-X importtime names each module on stderr as soon as its import is over: there the signal is sent."""
    file = tmp_path / "run.toml"
    file.write_text('name = "short"\n[topic]\npartitions = 1\n')
    store = tmp_path / "store"
    argv = [sys.executable, "-X", "importtime", "-m", "harness.commands", "test", str(file), "--store", str(store)]
    process = subprocess.Popen(
        [*argv, "--no-analysis"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = []
    met = 0
    for line in process.stderr:
        if not line.startswith("import time:"):
            said.append(line)
        elif line.rpartition("|")[2].strip() == module:
            met += 1
            if met == time_of_it:
                process.send_signal(signal.SIGINT)
    process.stderr.close()
    code = process.wait(60)
    assert met >= time_of_it
    assert "Traceback" not in "".join(said)
    if code == -signal.SIGINT:
        assert said == []
    else:
        # The run had begun: it ended in order.
        assert code == 255
        assert "aborted by SIGINT" in "".join(said)
    eventually(lambda: not command_lines(str(tmp_path)), "none of its processes is left", timeout_s=60)


def _by_bash(script: str) -> subprocess.CompletedProcess[str]:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = {**os.environ, **locale, "PROGRAM": " ".join(PROGRAM)}
    environment.pop("PYTHONUNBUFFERED", None)
    return subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", timeout=120
    )


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("$PROGRAM topics --help > /dev/full", 1, "topics: standard output cannot be written: No space left on device"),
        ("$PROGRAM topics --help >&-", 1, "topics: standard output is closed"),
        ("$PROGRAM produce --topic t --bootstrap-server a:1 <&-", 1, "standard input is closed: records are read from"),
    ],
)
def test_tool_without_its_streams_says_so_in_its_own_exit_code(script: str, code: int, said: str) -> None:
    done = _by_bash(script)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "an error of its own" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("script", ["$PROGRAM topics --help", "$PROGRAM test --help"])
def test_help_is_shown_where_the_terminal_has_not_all_its_characters(script: str) -> None:
    done = _by_bash(script)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2026" in done.stdout


def test_address_that_can_be_no_name_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "serve", str(tmp_path), "--host", "a..b"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 255
    assert "highwater: a..b:0: label empty or too long\n" in done.stderr
    assert "error of its own" not in done.stderr
