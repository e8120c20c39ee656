"""ssh nodes on hosts that are given: what is refused, and that nothing stays on them. The hosts are sshd nodes."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.commands.heal import heal
from harness.nodes import disks, firewall
from harness.nodes.base import DaemonSpec
from harness.nodes.factory import make_nodes
from harness.nodes.manifest import manifests
from harness.nodes.ssh import HostRefused, SshHost, SshNode
from harness.nodes.ssh_set import REMOTE_FOLDER
from harness.nodes.sshd import OwnSshd
from harness.nodes.topology import places

pytestmark = [pytest.mark.ssh, pytest.mark.sandbox, pytest.mark.guarantee("H1")]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[SshHost]]:
    servers = OwnSshd(places(2, 0), tmp_path / "sshd")
    servers.open()
    yield servers.hosts
    servers.close()


def test_given_hosts_are_provisioned_and_left_as_they_were(
    hosts: list[SshHost], state: Path, source: Path, tmp_path: Path
) -> None:
    known = Path(hosts[0].known_hosts or "")
    nodes = make_nodes("ssh", 2, 0, run_dir=tmp_path / "run", source=source, hosts=hosts, known_hosts=known)
    (tmp_path / "run").mkdir()
    nodes.open()
    n1, n2 = nodes.nodes["n1"], nodes.nodes["n2"]
    ((_, content),) = manifests()
    assert [entry["root"] for entry in content["hosts"]] == [n1.root, n2.root]
    assert n1.root.startswith(REMOTE_FOLDER)
    n1.start(DaemonSpec("sleeper", ("sleep", "600")))
    pid = n1.pid("sleeper")
    firewall.cut(n1, [n2.address])
    disks.attach(n1, f"{n1.root}/data")
    nodes.close()
    _assert_no_mounts(n1.root)
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(n1.root).exists()
    assert list(manifests()) == []
    _assert_no_rules("n1")


def test_heal_dead_run_cleans_its_hosts(hosts: list[SshHost], state: Path, source: Path, tmp_path: Path) -> None:
    known = Path(hosts[0].known_hosts or "")
    (tmp_path / "run").mkdir()
    nodes = make_nodes("ssh", 2, 0, run_dir=tmp_path / "run", source=source, hosts=hosts, known_hosts=known)
    nodes.open()
    n1, n2 = nodes.nodes["n1"], nodes.nodes["n2"]
    n1.start(DaemonSpec("sleeper", ("sleep", "600")))
    n1.signal("sleeper", signal.SIGSTOP)
    pid, root = n1.pid("sleeper"), n1.root
    firewall.cut(n1, [n2.address])
    assert disks.missing(n1) is None
    disks.attach(n1, f"{root}/data")
    # Its power fails, and the run ends before it is back.
    disks.cut(n1, f"{root}/data")

    assert heal().left == []
    assert n1.pid("sleeper") == pid  # the owner lives: nothing is touched

    ((file, content),) = manifests()
    content["owner"]["boot_id"] = "an earlier one"
    file.write_text(json.dumps(content))
    report = heal()
    assert report.left == []
    assert any("cleaned n1" in line for line in report.done)
    _assert_no_mounts(root)
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(root).exists()
    assert not file.exists()
    _assert_no_rules("n1")
    for node in (n1, n2):
        assert isinstance(node, SshNode)
        node.disconnect()


def test_heal_host_that_is_down_keeps_the_manifest_and_cleans_the_other(
    hosts: list[SshHost], state: Path, source: Path, tmp_path: Path
) -> None:
    known = Path(hosts[0].known_hosts or "")
    (tmp_path / "run").mkdir()
    nodes = make_nodes("ssh", 2, 0, run_dir=tmp_path / "run", source=source, hosts=hosts, known_hosts=known)
    nodes.open()
    roots = [node.root for node in nodes.nodes.values()]
    ((file, content),) = manifests()
    content["owner"]["boot_id"] = "an earlier one"
    port = content["hosts"][0]["port"]
    content["hosts"][0]["port"] = 9
    file.write_text(json.dumps(content))
    report = heal()
    assert len(report.left) == 1
    assert "node n1" in report.left[0]
    assert (Path(roots[0]).exists(), Path(roots[1]).exists()) == (True, False)
    content["hosts"][0]["port"] = port
    file.write_text(json.dumps(content))
    assert heal().left == []
    assert not file.exists()
    for node in nodes.nodes.values():
        assert isinstance(node, SshNode)
        node.disconnect()


def test_unknown_host_key_is_refused_with_the_command_that_adds_it(hosts: list[SshHost], tmp_path: Path) -> None:
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    node = SshNode(replace(hosts[0], known_hosts=str(empty)), "/nowhere")
    with pytest.raises(HostRefused, match=r"10\.77\.0\.1 is not in .*ssh-ed25519.*ssh-keyscan -p 22 10\.77\.0\.1 >> "):
        node.connect()


def test_changed_host_key_is_refused_with_the_command_that_forgets_it(hosts: list[SshHost], tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    key = " ".join(other.with_suffix(".pub").read_text().split()[:2])
    known = tmp_path / "known_hosts"
    known.write_text(f"10.77.0.1 {key}\n")
    node = SshNode(replace(hosts[0], known_hosts=str(known)), "/nowhere")
    with pytest.raises(HostRefused, match=r"host key is not the one in .*ssh-keygen -R '10\.77\.0\.1'"):
        node.connect()


def test_key_that_the_host_does_not_know_is_refused(hosts: list[SshHost], tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    node = SshNode(replace(hosts[0], key=str(other)), "/nowhere")
    with pytest.raises(HostRefused, match=r"node n1 .*refuses the key .*other"):
        node.connect()


def test_host_without_sshd_is_refused_with_its_name(hosts: list[SshHost]) -> None:
    node = SshNode(replace(hosts[0], port=9), "/nowhere")
    with pytest.raises(HostRefused, match=r"node n1 \(root@10\.77\.0\.1:9\)"):
        node.connect()


def _assert_no_mounts(root: str) -> None:
    assert root not in Path("/proc/self/mounts").read_text()
    images = subprocess.run(["losetup", "-n", "-l", "-O", "BACK-FILE"], capture_output=True, text=True, check=True)
    assert root not in images.stdout


def _assert_no_rules(namespace: str) -> None:
    enter = ["nsenter", f"--net=/run/netns/{namespace}"]
    rules = subprocess.run([*enter, "nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    assert "drop" not in rules
