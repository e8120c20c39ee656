"""A mix is timed by the slowest broker of the plan: its session, its lag time, its recovery."""

from __future__ import annotations

from harness.plan.run_file import parse_plan
from nemesis.catalogue import load_catalogue
from nemesis.driver import mix_of
from nemesis.kinds import Timing

RUN = """
name = "x"
[system.settings]
"zookeeper.session.timeout.ms" = 6000
"replica.lag.time.max.ms" = 2000
[system.broker.2]
"zookeeper.session.timeout.ms" = 15000
[workload]
time_limit_s = 40.0
"""


def test_mix_of_plan_takes_the_slowest_broker_s_timing() -> None:
    mix = mix_of(parse_plan("x.toml", RUN + '[faults]\nkinds = ["pause"]\noverlap = 2\n', load_catalogue().kinds))
    assert mix is not None
    assert mix.timing == Timing(session_s=15.0, lag_s=2.0)
    assert [kind.name for kind in mix.kinds] == ["pause"]
    assert (mix.overlap, mix.time_limit_s, mix.recovery_s) == (2, 40.0, 6.0)


def test_mix_of_plan_without_faults_is_none() -> None:
    assert mix_of(parse_plan("x.toml", RUN)) is None
