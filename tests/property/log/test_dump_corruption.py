"""Random corruptions of a log folder: the dump never raises, and what it says of each batch is what the bytes say."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from broker.core.producers import snapshot as producer_snapshot
from broker.core.producers.state import ProducerStates
from broker.wire.compression import Compression
from broker.wire.record_batch import CRC_START, BatchHeader, CorruptBatch, iter_batches, read_header
from broker.wire.records import NewRecord, encode_batch
from tests.property.log.corruption import corrupt
from tests.property.log.log_folder import Template
from tests.property.log.log_tools import TP, Clock, folder, open_log, open_store
from tests.support.dump import Dumped, dump

pytestmark = pytest.mark.guarantee("L1")

SAMPLE = 200
NIGHTLY = 5000


@pytest.fixture(scope="module")
def template() -> Template:
    """Segments in every codec with all their files, one index with room that Kafka would have taken in advance."""
    with folder() as path:
        store = open_store(path, Clock(), {"segment.bytes": "4000", "index.interval.bytes": "300"})
        log = open_log(store)
        for n in range(90):
            new = [NewRecord(b"k%d" % n, b"v" * 60, [("h", None)]) for _ in range(1 + n % 3)]
            data = encode_batch(new, timestamps=1000 + n, compression=list(Compression)[n % 5], producer_id=n % 2)
            log.append_as_leader(memoryview(bytearray(data)), n // 30)
            log.write()
        states = ProducerStates()
        states.append(1, 0, 5, 9, 15, 19, 0.0)
        log.snapshots.write(log.staged_end_offset, producer_snapshot.encode(states, wall_ms=50_000, now_ms=1000.0))
        store.close(clean=True)
        files = {file.name: file.read_bytes() for file in Path(path, str(TP)).iterdir()}
    files[f"{0:020d}.txnindex"] = struct.pack(">hqqqq", 0, 7, 10, 20, 8) * 3
    files[f"{0:020d}.index"] += bytes(400)
    return Template(files, {}, clean=True)


def _judge(home: Path, kind: str, said: Dumped) -> str:
    """Raises AssertionError where the output is not what the bytes in the folder say."""
    blocks = _blocks(said.out)
    assert said.code == 1 if kind == "delete" else said.code in (0, 1)
    assert said.err if said.code else all("ndex offset" in line or "Mismatches in" in line for line in said.err)
    for file in home.glob("*.log"):
        content = file.read_bytes()
        valid = _valid(content, [line for line in blocks[str(file)] if line.startswith("baseOffset: ")])
        from_the_front = set(_from_the_front(content))
        assert from_the_front <= valid, f"{file} has valid batches that were not told"
        assert said.code or sum(size for _, size in from_the_front) == len(content)
    if not said.code:
        assert all(producer_snapshot.decode(file.read_bytes()) for file in home.glob("*.snapshot"))
        for index in home.glob("*.index"):
            assert all(_is_true(index, *entry) for entry in struct.iter_unpack(">ii", index.read_bytes()))
    return "told" if said.code else "not told"


def _is_true(index: Path, relative: int, position: int) -> bool:
    """Whether a batch begins at the position, and one from there on ends at the offset; or the entry is unused room."""
    content = index.with_suffix(".log").read_bytes()
    ends = [int(index.stem) + relative == header.last_offset for at, header in _headers(content) if at >= position]
    return (relative, position) == (0, 0) or (position in dict(_headers(content)) and any(ends))


def _headers(content: bytes) -> list[tuple[int, BatchHeader]]:
    return list(iter_batches(memoryview(content), verify_crc=True))


def _blocks(lines: list[str]) -> dict[str, list[str]]:
    blocks: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("Dumping "):
            current = blocks.setdefault(line.removeprefix("Dumping "), [])
        else:
            current.append(line)
    return blocks


def _valid(content: bytes, told: list[str]) -> set[tuple[int, int]]:
    """(position, size) of the batches called valid; the claim is checked against the bytes."""
    found = set()
    for line in told:
        words = line.split(" ")
        position, size = (int(words[words.index(word) + 1]) for word in ("position:", "size:"))
        header = read_header(memoryview(content), position)
        assert header.size == size
        right = crc32c(content[position + CRC_START : position + size]) == header.crc
        assert line.endswith(f"isvalid: {str(right).lower()}")
        if right:
            found.add((position, size))
    return found


def _from_the_front(content: bytes) -> Iterator[tuple[int, int]]:
    """(position, size) of the valid batches before the first damage."""
    try:
        for position, header in iter_batches(memoryview(content), verify_crc=True):
            yield position, header.size
    except CorruptBatch:
        return


def _run(template: Template, seeds: int) -> None:
    outcomes: Counter[tuple[str, str]] = Counter()
    with folder() as path:
        for seed in range(seeds):
            _, kind, files = corrupt(template, seed)
            home = Path(path, str(seed))
            home.mkdir()
            for name, content in files.items():
                (home / name).write_bytes(content)
            named = [home / name for name in sorted(template.files)]
            try:
                said = dump(named, "--print-data-log")
                outcomes[kind, _judge(home, kind, said)] += 1
                for option in ("--verify-index-only", "--index-sanity-check"):
                    dump(named, option)
            except Exception as error:
                raise AssertionError(f"corruption with seed {seed}") from error
            shutil.rmtree(home)
    assert {kind for kind, _ in outcomes} == {"flip", "truncate", "zero", "swap", "append", "repeat", "delete"}
    assert sum(count for (_, how), count in outcomes.items() if how == "told") > seeds * 0.8, outcomes


def test_dump_of_files_corrupted_at_random_never_raises_and_says_what_the_bytes_say(template: Template) -> None:
    _run(template, SAMPLE)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_dump_of_files_corrupted_thousands_of_times_never_raises(template: Template) -> None:
    _run(template, NIGHTLY)


def test_dump_of_the_folder_as_it_was_finds_nothing_wrong(template: Template, tmp_path: Path) -> None:
    for name, content in template.files.items():
        (tmp_path / name).write_bytes(content)
    said = dump([tmp_path / name for name in sorted(template.files)], "--print-data-log")
    assert (said.code, said.err) == (0, [])
