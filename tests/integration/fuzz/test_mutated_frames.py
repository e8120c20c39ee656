"""Mutated requests of every API and version that is served, to real brokers: nobody else notices.

HIGHWATER_FUZZ_FRAMES and HIGHWATER_FUZZ_SEED set another number and another seed for the long test.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Final

import pytest

from broker.wire.api import SUPPORTED, ApiKey
from tests.support.fuzz_mutations import MUTATIONS
from tests.support.fuzz_requests import Requests
from tests.support.fuzz_traffic import Traffic
from tests.support.fuzz_values import Values
from tests.support.fuzzed_cluster import CLUSTERS_OWN, GOOD, Fuzzed, fuzzed_cluster, watched

pytestmark = pytest.mark.guarantee("frame-lengths", "hostile-clients")

FRAMES: Final = int(os.environ.get("HIGHWATER_FUZZ_FRAMES", "1000000"))
SEED: Final = int(os.environ.get("HIGHWATER_FUZZ_SEED", "1"))
_BETWEEN_BROKERS: Final = 0.1
"""Share of the frames that goes to the broker which takes them for the cluster's."""
_SLOWEST_S: Final = 20.0
_RARE: Final = {ApiKey.CREATE_TOPICS: 0.2, ApiKey.DELETE_TOPICS: 0.1, ApiKey.CREATE_PARTITIONS: 0.1}
"""Each costs files and znodes."""


def _fuzz(fuzzed: Fuzzed, frames: int, seed: int, grown_mib_max: float) -> None:
    between = int(frames * _BETWEEN_BROKERS)
    rng = Random(seed)
    clients = Requests(rng, Values(rng), SUPPORTED.keys() - CLUSTERS_OWN, _RARE)
    traffic = Traffic(fuzzed.target.port, rng, clients, forbidden=CLUSTERS_OWN, spared=(GOOD, "__"))
    rng = Random(seed + 1)
    brokers = Requests(rng, Values(rng), SUPPORTED.keys(), dict.fromkeys(CLUSTERS_OWN, 8.0))
    cluster_traffic = Traffic(fuzzed.other.port, rng, brokers)
    bystander = fuzzed.bystander
    bystander.start()
    look = watched(lambda: fuzzed.check(grown_mib_max), every_s=10)
    try:
        traffic.send(frames - between, look)
        fuzzed.check(grown_mib_max)
        bystander.wait_rounds(len(bystander.times_s) + 1)
        bystander.stop()
        assert bystander.slowest_s() < _SLOWEST_S
        cluster_traffic.send(between, look)
        fuzzed.check(grown_mib_max)
        fuzzed.check_end()
    finally:
        for sent in (traffic, cluster_traffic):
            sent.close()
    print(f"\nseed {seed}: to the clients' broker {traffic.counts};\nto the other {cluster_traffic.counts}")
    times = (
        f"p50 {bystander.slowest_s(0.5):.3f}, p99 {bystander.slowest_s(0.99):.3f}, worst {bystander.slowest_s():.3f}"
    )
    print(f"a bystander's {len(bystander.times_s)} rounds took {times} s; memory grew by {fuzzed.grown_mib:.0f} MiB")
    counts = (traffic.counts, cluster_traffic.counts)
    assert {name for each in counts for name in each.mutations} == set(MUTATIONS)
    assert {name for each in counts for name in each.requests} == {
        f"{api.name} v{version}"
        for api, versions in SUPPORTED.items()
        for version in range(versions[0], versions[1] + 1)
    }
    assert all(each.answers > each.frames * 0.1 for each in counts), "a quarter of the frames is as it should be"


def test_ten_thousand_frames_disturb_nobody(tmp_path: Path) -> None:
    with fuzzed_cluster(tmp_path) as fuzzed:
        _fuzz(fuzzed, 10_000, seed=20, grown_mib_max=64)


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3600)
def test_a_million_frames_disturb_nobody_and_the_broker_starts_again(tmp_path: Path) -> None:
    with fuzzed_cluster(tmp_path) as fuzzed:
        _fuzz(fuzzed, FRAMES, SEED, grown_mib_max=256)
        fuzzed.serve_again()
