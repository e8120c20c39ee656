from __future__ import annotations

import pytest

from harness.plan.run_file import parse_plan, render
from harness.plan.toml_source import PlanError
from harness.plan.zookeeper_address import Ensemble, parse

TOPIC = 'name = "a"\n[topic]\npartitions = 1\n'


def test_parse_servers_and_chroot() -> None:
    assert parse("zk1:2181,10.0.0.2:2182/a/b") == Ensemble((("zk1", 2181), ("10.0.0.2", 2182)), "/a/b")
    assert parse("[::1]:2181") == Ensemble((("::1", 2181),), "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zk1",
        "zk1:",
        "zk1:0",
        "zk1:70000",
        "zk1:2181,",
        "zk1:2181/",
        "zk1:2181/a//b",
        "a b:1",
        "a..b:1",
        f"{'a' * 64}:1",
    ],
)
def test_parse_what_is_no_ensemble_says_what_is_wanted(text: str) -> None:
    with pytest.raises(ValueError, match=r"wanted host:port"):
        parse(text)


def test_plan_with_an_ensemble_of_somebody_elses_has_no_zookeeper_node() -> None:
    plan = parse_plan("a.toml", TOPIC + '[nodes]\nzookeeper = "zk:2181/x"\n')
    assert (plan.nodes.zookeeper, plan.nodes.zookeepers) == ("zk:2181/x", 0)
    assert parse_plan("b.toml", render(plan)) == plan
    overridden = parse_plan("a.toml", TOPIC).with_overrides(zookeeper="zk:2181")
    assert (overridden.nodes.zookeeper, overridden.nodes.zookeepers) == ("zk:2181", 0)


def test_plan_with_an_address_that_is_none_names_it() -> None:
    with pytest.raises(PlanError, match=r"--zookeeper: 'zk' in 'zk' is not host:port"):
        parse_plan("a.toml", TOPIC).with_overrides(zookeeper="zk")
    with pytest.raises(PlanError, match=r"a.toml:5: nodes.zookeeper: 'zk'"):
        parse_plan("a.toml", TOPIC + '[nodes]\nzookeeper = "zk"\n')
    with pytest.raises(PlanError, match=r"zookeepers"):
        parse_plan("a.toml", TOPIC + '[nodes]\nzookeeper = "zk:1"\nzookeepers = 1\n')
