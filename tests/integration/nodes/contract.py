"""What every kind of node must do. `test_kinds.py` runs this file inside the sandbox, once per kind (NODE_KIND)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.nodes import disks, firewall
from harness.nodes.base import CommandFailed, DaemonSpec, Node, NodeSet
from harness.nodes.factory import make_nodes
from harness.nodes.manifest import manifests

KIND = os.environ["NODE_KIND"]
SLEEP = ("sleep", "600")

# A TCP exchange with one node: prints ok, refused or silent.
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=1.0).recv(1)
    print("ok")
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("silent")
"""
SERVE = """
import socket
listener = socket.create_server(("", 7000))
while True:
    connection, _ = listener.accept()
    connection.sendall(b"x")
    connection.close()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def node_set(folder: Path) -> Iterator[NodeSet]:
    package = folder / "source" / "broker"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("ANSWER = 42\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        nodes = make_nodes(KIND, 3, 1, run_dir=folder, source=folder / "source")
        nodes.open()
        nodes.open()
        yield nodes
        nodes.close()
        nodes.close()
        assert list(manifests()) == []
    assert not (folder / "nodes").exists()
    if KIND != "docker":
        links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=True).stdout
        assert "hw" not in links


@pytest.fixture
def n1(node_set: NodeSet) -> Iterator[Node]:
    node = node_set.nodes["n1"]
    yield node
    firewall.heal(node)


@pytest.fixture
def n2(node_set: NodeSet) -> Iterator[Node]:
    node = node_set.nodes["n2"]
    yield node
    firewall.heal(node)


def test_nodes_have_names_and_distinct_addresses_that_reach_one_another(node_set: NodeSet) -> None:
    assert list(node_set.nodes) == ["n1", "n2", "n3", "zk1"]
    assert len({node.address for node in node_set.nodes.values()}) == 4
    n3, zk1 = node_set.nodes["n3"], node_set.nodes["zk1"]
    n3.run(["ping", "-c", "1", "-W", "2", zk1.address])
    subprocess.run(["ping", "-c", "1", "-W", "2", zk1.address], check=True, stdout=subprocess.DEVNULL)
    shown = n3.run(["ip", "-o", "-4", "addr"]).stdout
    assert n3.address in shown
    assert zk1.address not in shown


def test_open_left_a_manifest_that_names_the_run(node_set: NodeSet, folder: Path) -> None:
    ((_, content),) = manifests()
    assert content["run_dir"] == str(folder)
    assert content["owner"]["pid"] != os.getpid()  # the sandbox's outer process, as the machine sees it


def test_run_gives_output_code_and_input(n1: Node) -> None:
    done = n1.run(["sh", "-c", "cat; echo err >&2; exit 3"], check=False, input_text="ünicode\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "ünicode\n", "err\n")
    assert n1.run(["printf", "%s|", "a b", "'", "$HOME", "*"]).stdout == "a b|'|$HOME|*|"
    assert n1.run(["id", "-u"]).stdout == "0\n"


def test_run_large_output_and_input_come_through_whole(n1: Node) -> None:
    text = "0123456789abcde\n" * 200_000
    n1.write_text(f"{n1.root}/large", text)
    assert n1.read_text(f"{n1.root}/large") == text


def test_run_failure_names_node_command_code_and_stderr(n1: Node) -> None:
    with pytest.raises(CommandFailed, match=r"node n1: sh -c .* exited 9: broken"):
        n1.run(["sh", "-c", "echo broken >&2; exit 9"])
    with pytest.raises(CommandFailed, match="node n1: no-such-program"):
        n1.run(["no-such-program"])


def test_run_too_long_is_ended_and_says_so(n1: Node) -> None:
    began = time.monotonic()
    with pytest.raises(CommandFailed, match=r"node n1: sleep 600 did not end in 0\.5 s"):
        n1.run(["sleep", "600"], timeout_s=0.5)
    assert time.monotonic() - began < 20


def test_daemon_outlives_the_call_logs_and_ends_by_signal(n1: Node) -> None:
    script = "trap 'echo term; exit 0' TERM; echo up $GREETING; while :; do sleep 0.05; done"
    n1.start(DaemonSpec("server", ("sh", "-c", script), {"GREETING": "hello  world"}, cwd=n1.root))
    pid = n1.pid("server")
    assert pid is not None
    with pytest.raises(CommandFailed, match=f"daemon server not started: it runs already, pid {pid}"):
        n1.start(DaemonSpec("server", SLEEP))
    assert n1.run(["readlink", f"/proc/{pid}/cwd"]).stdout.strip() == n1.root
    while "up" not in n1.read_text(f"{n1.root}/logs/server.log"):
        time.sleep(0.02)
    n1.signal("server", signal.SIGTERM)
    assert n1.wait_gone("server", 10)
    assert n1.pid("server") is None
    n1.start(DaemonSpec("server", ("echo", "again")))
    assert n1.wait_gone("server", 10)
    assert n1.read_text(f"{n1.root}/logs/server.log").split("\n") == ["up hello world", "term", "again", ""]


def test_daemon_paused_and_killed(n1: Node) -> None:
    n1.start(DaemonSpec("sleeper", SLEEP))
    pid = n1.pid("sleeper")
    n1.signal("sleeper", signal.SIGSTOP)
    assert not n1.wait_gone("sleeper", 0.1)
    assert "\nState:\tT" in n1.read_text(f"/proc/{pid}/status")
    n1.signal("sleeper", signal.SIGKILL)
    assert n1.wait_gone("sleeper", 10)
    with pytest.raises(CommandFailed, match="cannot send signal 9 to sleeper: it is not running"):
        n1.signal("sleeper", signal.SIGKILL)


def test_daemon_whose_pid_belongs_to_another_process_is_not_signalled(n1: Node) -> None:
    n1.start(DaemonSpec("innocent", SLEEP))
    pid = n1.pid("innocent")
    n1.write_text(f"{n1.root}/pids/dead.pid", f"{pid} 12345\n")
    assert n1.pid("dead") is None
    with pytest.raises(CommandFailed, match="not running"):
        n1.signal("dead", signal.SIGKILL)
    assert n1.pid("innocent") == pid
    n1.signal("innocent", signal.SIGKILL)
    assert n1.wait_gone("innocent", 10)


def test_daemon_in_a_missing_folder_is_an_error(n1: Node) -> None:
    with pytest.raises(CommandFailed, match="daemon lost not started"):
        n1.start(DaemonSpec("lost", SLEEP, cwd="/no/such/folder"))


def test_put_and_get_folders_and_files_arrive_at_exactly_the_named_place(n1: Node, tmp_path: Path) -> None:
    source = tmp_path / "tree"
    (source / "deep er").mkdir(parents=True)
    (source / "deep er" / "data").write_bytes(bytes(range(256)))
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    n1.put(source, f"{n1.root}/copy/of tree")
    assert n1.run([f"{n1.root}/copy/of tree/run.sh"]).stdout == "ran\n"
    n1.get(f"{n1.root}/copy/of tree", tmp_path / "back")
    assert (tmp_path / "back" / "deep er" / "data").read_bytes() == bytes(range(256))
    n1.put(source / "run.sh", f"{n1.root}/copy/file")
    n1.get(f"{n1.root}/copy/file", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "#!/bin/sh\necho ran\n"
    assert n1.exists(f"{n1.root}/copy/file")
    assert not n1.exists(f"{n1.root}/copy/other")


def test_get_what_is_not_there_is_an_error(n1: Node, tmp_path: Path) -> None:
    with pytest.raises((CommandFailed, FileNotFoundError), match="no-such"):
        n1.get(f"{n1.root}/no-such", tmp_path / "x")


def test_cut_is_one_way_and_heal_takes_it_back(n1: Node, n2: Node, node_set: NodeSet) -> None:
    n1.start(DaemonSpec("tcp", (n1.python, "-c", SERVE)))

    def connect(node: Node, to: Node = n1) -> str:
        return node.run([node.python, "-c", CONNECT, to.address, "7000"]).stdout.strip()

    deadline = time.monotonic() + 20
    while connect(n2) != "ok":
        assert time.monotonic() < deadline
    n3 = node_set.nodes["n3"]
    firewall.cut(n1, [n2.address])
    assert (connect(n2), connect(n3)) == ("silent", "ok")
    assert firewall.rules(n1) == [firewall.Rule(n2.address, False)]
    assert firewall.rules(n2) == []
    firewall.cut(n1, [n3.address, n3.address], reject=True)
    assert (connect(n2), connect(n3)) == ("silent", "refused")
    firewall.heal(n1, [n2.address])
    assert (connect(n2), connect(n3)) == ("ok", "refused")
    firewall.heal(n1)
    assert firewall.rules(n1) == []
    assert (connect(n2), connect(n3)) == ("ok", "ok")
    n1.signal("tcp", signal.SIGKILL)


def test_cut_silences_a_connection_that_is_open(n1: Node, n2: Node) -> None:
    script = (
        "import socket, sys\n"
        "listener = socket.create_server(('', 7001))\n"
        "connection, _ = listener.accept()\n"
        "while True: print(len(connection.recv(1)), flush=True)\n"
    )
    sender = (
        "import socket, sys, time\n"
        "connection = socket.create_connection((sys.argv[1], 7001))\n"
        "while True: connection.send(b'x'); time.sleep(0.02)\n"
    )
    n1.start(DaemonSpec("sink", (n1.python, "-c", script)))
    deadline = time.monotonic() + 20
    while ":1B59" not in n1.read_text("/proc/net/tcp"):  # port 7001 listens
        assert time.monotonic() < deadline
    n2.start(DaemonSpec("source", (n2.python, "-c", sender, n1.address)))
    log = f"{n1.root}/logs/sink.log"
    while len(n1.read_text(log)) < 10:
        assert time.monotonic() < deadline
    firewall.cut(n1, [n2.address])
    # What had come before is printed first. Half a second is 25 times what lies between two of them.
    before, deadline = -1, time.monotonic() + 20
    while (received := len(n1.read_text(log))) != before:
        assert time.monotonic() < deadline, "it goes on"
        before = received
        time.sleep(0.5)
    n1.signal("sink", signal.SIGKILL)
    n2.signal("source", signal.SIGKILL)


@pytest.mark.parametrize("tool", firewall._TOOLS, ids=str)
def test_every_firewall_tool_that_is_installed_works(tool: firewall._Tool, n1: Node, n2: Node) -> None:
    # One of the three must; which, the probe decides.
    ping = ["ping", "-c", "1", "-W", "1", n2.address]
    if n1.run(["sh", "-c", 'command -v "$1"', "sh", tool.command], check=False).returncode != 0:
        assert tool.command != firewall.tool_name(n1)
        return
    rules = [firewall.Rule(n2.address, False), firewall.Rule("10.77.0.99", True)]
    tool.put(n1, rules)
    try:
        assert tool.rules(n1) == sorted(rules)
        assert n1.run(ping, check=False).returncode != 0
        tool.put(n1, rules[1:])
        assert tool.rules(n1) == rules[1:]
        n1.run(ping)
    finally:
        tool.clear(n1)
    assert tool.rules(n1) == []


def test_node_python_imports_the_copied_broker_and_its_dependencies(n1: Node, node_set: NodeSet) -> None:
    check = "import sys, broker, kazoo, crc32c; assert sys.version_info >= (3, 11); print(broker.ANSWER)"
    for node in node_set.nodes.values():
        assert node.run(["env", f"PYTHONPATH={node.broker_path}", node.python, "-c", check]).stdout == "42\n"


def test_node_java_runs_a_zookeeper_server_that_other_nodes_reach(n2: Node, node_set: NodeSet) -> None:
    zk = node_set.nodes["zk1"]
    settings = f"dataDir={zk.root}/zk\nclientPort=2181\nclientPortAddress={zk.address}\nadmin.enableServer=false\n"
    zk.write_text(f"{zk.root}/zoo.cfg", settings + "4lw.commands.whitelist=ruok\n")
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    java = (zk.java, "-Xmx128m", "-cp", zk.zookeeper_classpath, main, f"{zk.root}/zoo.cfg")
    zk.start(DaemonSpec("zookeeper", java))
    ask = (
        "import socket, sys\n"
        "with socket.create_connection((sys.argv[1], 2181), timeout=2) as connection:\n"
        "    connection.sendall(b'ruok'); print(connection.recv(10))\n"
    )
    deadline = time.monotonic() + 60
    while "imok" not in n2.run([n2.python, "-c", ask, zk.address], check=False).stdout:
        assert zk.pid("zookeeper") is not None, zk.read_text(f"{zk.root}/logs/zookeeper.log")[-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    zk.signal("zookeeper", signal.SIGTERM)
    assert zk.wait_gone("zookeeper", 20)


def test_node_faketime_skews_the_wall_clock_only(n1: Node) -> None:
    assert n1.faketime_library is not None
    n1.write_text(f"{n1.root}/clock", "+604800s\n")
    script = (
        "import time\n"
        "a = time.monotonic(); time.sleep(0.05); slept = time.monotonic() - a\n"
        "print(time.time(), time.monotonic(), slept)\n"
    )
    plain = n1.run([n1.python, "-c", script]).stdout.split()
    variables = [f"LD_PRELOAD={n1.faketime_library}", f"FAKETIME_TIMESTAMP_FILE={n1.root}/clock"]
    variables += ["FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_CACHE_DURATION=1"]
    faked = n1.run(["env", *variables, n1.python, "-c", script]).stdout.split()
    assert 604_799 < float(faked[0]) - float(plain[0]) < 604_860
    assert 0 <= float(faked[1]) - float(plain[1]) < 60
    assert 0.04 < float(faked[2]) < 20


def test_containers_mount_disks_only_in_runs_that_need_them(n1: Node) -> None:
    assert disks.missing(n1) == ("to mount a disk image needs CAP_SYS_ADMIN" if KIND == "docker" else None)
