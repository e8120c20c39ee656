"""Compiles a client written in C into the user's cache, once for each state of its sources."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import uuid
from pathlib import Path

from benchmarks.process import BenchmarkFailed
from harness.tools.java import cache_folder

_FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")


def compile_c(name: str, sources: Path, advice: str, *libraries: str) -> Path:
    """The program from all C files of a folder. Raises BenchmarkFailed with what the compiler said and the advice."""
    files = sorted(sources.glob("*.[ch]"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]
    program = cache_folder() / f"{name}-{digest}"
    if program.exists():
        return program
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise BenchmarkFailed(f"no C compiler for the client {name}: {advice}")
    program.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: another process may compile the same client just now.
    partial = program.with_name(f"{program.name}.{uuid.uuid4().hex}.new")
    units = [str(path) for path in files if path.suffix == ".c"]
    argv = [compiler, *_FLAGS, "-o", str(partial), *units, *libraries]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkFailed(f"the client {name} does not compile ({advice}): {done.stderr[-1000:]}")
    partial.rename(program)
    return program
