"""What a made history of a size holds: pure arithmetic, the same for its tables and for its JSON lines.

A partition's load goes in rounds: in each one send of BATCH values, which stand at the next BATCH offsets. ROUNDS of
them are a block, which one poll reads, and a request for the end follows; one more send of each block certainly fails.
Once the load is over a sentinel is sent, and two drains read all of it: the lab's own reader and the real client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

N = TypeVar("N", int, np.ndarray[Any, np.dtype[Any]])
"""One number, or many at once."""

TOPIC = "bench"
PARTITIONS = 8
BATCH = 5
"""Values of one send."""
ROUNDS = 20
BLOCK = BATCH * ROUNDS
"""Records of one block: what a poll reads."""
EPOCHS = 4
"""Leader epochs of each partition: as many at every size, as faults are no more in a longer run."""
NODES = 3

ROUND_NS = 2_000_000
SEND_LATENCY_NS = (1_000_000, 15_000_000)
LAG_ROUNDS = 30
"""How many rounds after a block's end its poll is begun: by then all of it is acknowledged."""
PROCESSES = 16
"""Processes that send to one partition, in turn."""
DRAIN_AFTER_NS = 1_000_000_000

SENDS, FAILED, POLL, END = 0, ROUNDS, ROUNDS + 1, ROUNDS + 2
PER_BLOCK = ROUNDS + 3
"""Operations of a block, and where in it each kind is: sends, the one that fails, the poll, the request for the end."""

READERS = ("main", "wire", "confluent")
"""Who reads: the poll of the load, and the two drains."""
CHUNK_BLOCKS = 4000
"""Blocks that are made at once."""
LEAST_BLOCKS = 30
PER_BLOCK_MICRO = BLOCK * (1 + len(READERS)) + BATCH


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of a history that is made at once: blocks [first, last) of a partition, by one of READERS."""

    reader: str
    p: int
    first: int
    last: int

    @property
    def name(self) -> str:
        return f"{self.reader}-{self.p}-{self.first:09d}"


@dataclass(frozen=True, slots=True)
class Shape:
    """blocks: of each partition. seed: of times, of what is unknown, and of where anomalies are planted."""

    blocks: int
    seed: int

    @property
    def rounds(self) -> int:
        return self.blocks * ROUNDS

    @property
    def end(self) -> int:
        """Offset of the sentinel of each partition."""
        return self.blocks * BLOCK

    @property
    def micro_operations(self) -> int:
        """About: without sentinels, and without what anomalies add or take."""
        return self.blocks * PARTITIONS * PER_BLOCK_MICRO

    @property
    def head(self) -> int:
        """Lines before the first operation."""
        return 1 + PARTITIONS * EPOCHS

    @property
    def operations(self) -> int:
        """Of the load, sentinels, drains and the send behind the sentinel."""
        return self.blocks * PARTITIONS * PER_BLOCK + PARTITIONS + 2 * PARTITIONS * (self.blocks + 1) + 1

    def line(self, number: N) -> N:
        """Index of the invocation of an operation: its completion is the line behind it."""
        return self.head + 2 * number

    def in_block(self, p: int, block: N, which: int) -> N:
        """Number of an operation of the load."""
        return (block * PARTITIONS + p) * PER_BLOCK + which

    def sentinel(self, p: int) -> int:
        return self.blocks * PARTITIONS * PER_BLOCK + p

    def drain(self, reader: str, p: int, block: N) -> N:
        """Number of a drain's poll; block `blocks` is the one of the sentinel."""
        before = self.sentinel(PARTITIONS) + (READERS.index(reader) - 1) * PARTITIONS * (self.blocks + 1)
        return before + p * (self.blocks + 1) + block

    @property
    def extra(self) -> int:
        """Number of the send behind the sentinel."""
        return self.operations - 1

    def value(self, p: int, round_: N) -> N:
        """First value of a round's send."""
        return 1 + (round_ * PARTITIONS + p) * BATCH

    def value_at(self, p: int, offset: N) -> N:
        """What stands there where nothing is wrong."""
        first: N = self.value(p, offset // BATCH) + offset % BATCH
        return first

    def sentinel_value(self, p: int) -> int:
        return self.value(0, self.rounds) + p

    def failed_value(self, p: int, block: N) -> N:
        """First value of the send of a block that fails."""
        return self.sentinel_value(PARTITIONS) + (block * PARTITIONS + p) * BATCH

    def foreign_value(self, nth: int) -> int:
        """Values that no send of the load has."""
        return self.failed_value(0, self.blocks) + nth

    def epoch(self, round_: int) -> int:
        """Leader epoch of a partition in that round."""
        return min(EPOCHS - 1, round_ * EPOCHS // self.rounds)

    def epoch_begins(self, epoch: int) -> int:
        """The first round of an epoch."""
        return -(-epoch * self.rounds // EPOCHS)

    def node(self, p: int, epoch: int) -> str:
        """Who leads a partition in that epoch."""
        return f"n{(p + epoch) % NODES + 1}"

    def poll_round(self, block: N) -> N:
        """The round in which the poll of a block is begun."""
        return (block + 1) * ROUNDS + LAG_ROUNDS

    def end_at(self, round_: N) -> N:
        """What is committed as a round begins: all before it is sent, and may be acknowledged; of itself nothing is."""
        end: N = np.minimum(round_, self.rounds) * BATCH
        return end

    @property
    def drains_ns(self) -> int:
        """When the drains begin."""
        return (self.rounds + 2 * LAG_ROUNDS) * ROUND_NS + DRAIN_AFTER_NS

    @property
    def over_ns(self) -> int:
        """When both drains are over."""
        return self.drains_ns + 2 * (self.blocks + 2) * ROUND_NS

    def units(self) -> Iterator[Unit]:
        """All pieces but the sentinels and what follows them, in the order of their lines."""
        spans = [(first, min(first + CHUNK_BLOCKS, self.blocks)) for first in range(0, self.blocks, CHUNK_BLOCKS)]
        yield from (Unit("main", p, *span) for span in spans for p in range(PARTITIONS))
        yield from (Unit(reader, p, *span) for reader in READERS[1:] for p in range(PARTITIONS) for span in spans)


def shape_of(micro_operations: int, seed: int) -> Shape:
    """The history whose size is nearest. Raises ValueError where it is too small for what is planted."""
    blocks = round(micro_operations / (PARTITIONS * PER_BLOCK_MICRO))
    if blocks < LEAST_BLOCKS:
        least = LEAST_BLOCKS * PARTITIONS * PER_BLOCK_MICRO
        raise ValueError(f"{micro_operations} micro-operations are too few to plant all anomalies: at least {least}")
    return Shape(blocks, seed)
