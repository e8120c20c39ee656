"""Change the pure core a little, function by function, and count the changes that its unit tests notice.

    python -m tools.mutation [--functions N] [--seed S] [--at-least PERCENT]

mutmut makes the changes (mutants) and runs, for each, the tests in tests/unit/broker/core that pass through the changed
function. This tool draws the functions, works on a copy in build/mutation, and prints the score: mutants that a test
noticed, in percent of all. Survivors are listed; `cd build/mutation && mutmut show NAME` prints one as a diff. Some
change nothing that anybody could notice, so 100 is not the aim. Exit code 1: the score is below PERCENT.
"""

from __future__ import annotations

import ast
import random
import re
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from broker.tools.options import number

CORE = Path("broker/core")
WORK = Path("build/mutation")
COPIED = ("broker", "tests")
CONFIG = """
[tool.mutmut]
source_paths = ["{core}"]
only_mutate = [{files}]
also_copy = ["broker", "tests"]
pytest_add_cli_args_test_selection = ["tests/unit/{core}"]
pytest_add_cli_args = ["-p", "no:cacheprovider", "-p", "no:xdist"]
"""
_RESULT = re.compile(r"^\s+(?P<name>\S+__mutmut_\d+): (?P<status>.+)$")
NOTICED = ("killed", "timeout", "segfault")
NOT_RUN = ("not checked", "skipped")


@dataclass(frozen=True, order=True)
class Function:
    """cls: "" for a function of the module itself."""

    path: str
    cls: str
    name: str

    @property
    def pattern(self) -> str:
        """Of the names that mutmut gives to this function's mutants."""
        module = self.path.removesuffix(".py").replace("/", ".")
        return f"{module}.x{f'ǁ{self.cls}ǁ' if self.cls else '_'}{self.name}__mutmut_*"


def functions_in(path: str, source: str) -> Iterator[Function]:
    """Those that mutmut changes: of the module or of a class at its top, and undecorated."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and not inner.decorator_list:
                    yield Function(path, node.name, inner.name)
        elif isinstance(node, ast.FunctionDef) and not node.decorator_list:
            yield Function(path, "", node.name)


def draw(seed: int, count: int) -> list[Function]:
    """As many functions of the core, all of them where count is 0. New functions move few others out of a draw."""
    sources = {str(path): path.read_text(encoding="utf-8") for path in sorted(CORE.rglob("*.py"))}
    every = [function for path, source in sources.items() for function in functions_in(path, source)]
    return sorted(sorted(every, key=lambda one: random.Random(f"{seed} {one.pattern}").random())[: count or None])


def prepare(functions: Sequence[Function]) -> None:
    """A fresh copy of what the tests of the core need, configured for mutmut."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for folder in COPIED:
        shutil.copytree(folder, WORK / folder, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    files = ", ".join(f'"{path}"' for path in sorted({function.path for function in functions}))
    text = Path("pyproject.toml").read_text(encoding="utf-8")
    (WORK / "pyproject.toml").write_text(text + CONFIG.format(core=CORE, files=files), encoding="utf-8")


def results(text: str) -> dict[str, str]:
    """Mutant → status, of what `mutmut results` prints, without those that were not run."""
    found = (_RESULT.match(line) for line in text.splitlines())
    statuses = {match["name"]: match["status"] for match in found if match is not None}
    return {name: status for name, status in statuses.items() if status not in NOT_RUN}


def score(statuses: dict[str, str]) -> float:
    """In percent. A function that no test passes through counts as unnoticed."""
    return 100 * sum(status in NOTICED for status in statuses.values()) / len(statuses) if statuses else 0.0


def mutmut(*arguments: str) -> str:
    """What it prints. Ends this program where mutmut fails."""
    # The script beside the interpreter: run as a module, mutmut is imported twice.
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    done = subprocess.run(command, cwd=WORK, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"mutmut ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tools.mutation", description="Score the unit tests of the pure core.")
    parser.add_argument("--functions", type=int, default=0, help="how many functions to change; all, unless said")
    parser.add_argument("--seed", type=int, default=1, help="which functions those are")
    parser.add_argument("--at-least", type=number, default=0.0, metavar="PERCENT", help="the lowest score that passes")
    given = parser.parse_args(arguments)
    functions = draw(given.seed, given.functions)
    prepare(functions)
    mutmut("run", "--max-children", "2", *(function.pattern for function in functions))
    statuses = results(mutmut("results", "--all", "true"))
    for name, status in statuses.items():
        if status not in NOTICED:
            print(f"  {name}: {status}")
    reached = score(statuses)
    print(f"mutation score {reached:.0f} %: {len(statuses)} changes in {len(functions)} functions of {CORE}")
    return 0 if reached >= given.at_least else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
