"""sshd nodes of the harness's own: a network namespace with OpenSSH's server each, keys and known_hosts made for the
run.

Decides: the servers' configuration and keys. Must not know: what is done over SSH. Only inside the sandbox, as real
root: sshd changes its user, and a user namespace with one mapped uid has none to change to.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from harness.nodes import netns
from harness.nodes.base import CommandFailed
from harness.nodes.ssh import SshHost
from harness.nodes.topology import Place

PORT = 22
_START_TIMEOUT_S = 20.0

_CONFIG = """\
ListenAddress {address}:{port}
HostKey {host_key}
AuthorizedKeysFile {authorized_keys}
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
# A locked root account is let in by PAM only.
UsePAM {pam}
# The keys lie in the run's folder, whose parents others may write to.
StrictModes no
MaxSessions 100
MaxStartups 100
UseDNS no
PrintMotd no
# bash reads the user's .bashrc for every command of an outermost shell.
SetEnv SHLVL=1
PidFile none
"""


class OwnSshd:
    """The servers. `hosts` is known before they are made."""

    def __init__(self, places: Sequence[Place], folder: Path) -> None:
        self._places = tuple(places)
        self._folder = folder
        self._servers: list[subprocess.Popen[bytes]] = []
        key, known = str(folder / "id_ed25519"), str(folder / "known_hosts")
        self.hosts = [SshHost(place.name, place.address, place.address, "root", key, PORT, known) for place in places]

    def open(self) -> None:
        """Make the namespaces and start the servers; returns when all of them accept connections."""
        program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
        if program is None:
            raise CommandFailed("no sshd for ssh nodes of our own: sudo apt-get install openssh-server")
        if _mapped_users() == 1:
            raise CommandFailed(
                "ssh nodes of our own need real root (sshd changes its user): run as root, or name nodes.hosts"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._make_key(self._folder / "id_ed25519")
        shutil.copyfile(self._folder / "id_ed25519.pub", self._folder / "authorized_keys")
        self._make_key(self._folder / "host_key")
        host_key = " ".join((self._folder / "host_key.pub").read_text().split()[:2])
        known = "".join(f"{place.address} {host_key}\n" for place in self._places)
        (self._folder / "known_hosts").write_text(known)
        netns.make_bridge()
        for place in self._places:
            netns.make_namespace(place)
            self._start(program, place)
        for place, server in zip(self._places, self._servers, strict=True):
            self._await(place, server)

    def close(self) -> None:
        """End every sshd and remove the namespaces."""
        for server in self._servers:
            server.kill()
            server.wait()
        self._servers.clear()
        netns.remove([place.name for place in self._places])

    def _make_key(self, file: Path) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "highwater", "-f", file], check=True)

    def _start(self, program: str, place: Place) -> None:
        config = self._folder / f"{place.name}.conf"
        config.write_text(
            _CONFIG.format(
                address=place.address,
                port=PORT,
                host_key=self._folder / "host_key",
                authorized_keys=self._folder / "authorized_keys",
                pam="yes" if _root_is_locked() else "no",
            )
        )
        with (self._folder / f"{place.name}.log").open("ab") as log:
            self._servers.append(
                subprocess.Popen(
                    [*netns.enter(place.name), program, "-D", "-e", "-f", str(config)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=netns.environment(),
                    start_new_session=True,
                )
            )

    def _await(self, place: Place, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                socket.create_connection((place.address, PORT), timeout=1.0).close()
                return
            except OSError as error:
                if server.poll() is not None or time.monotonic() > deadline:
                    tail = (self._folder / f"{place.name}.log").read_text(errors="replace")[-1000:]
                    raise CommandFailed(
                        f"node {place.name}: sshd does not respond ({error}); its log ends: {tail}"
                    ) from error
                time.sleep(0.05)


def _mapped_users() -> int:
    return sum(int(line.split()[2]) for line in Path("/proc/self/uid_map").read_text().splitlines())


def _root_is_locked() -> bool:
    for line in Path("/etc/shadow").read_text().splitlines():
        name, password, *_ = line.split(":")
        if name == "root":
            return password.startswith("!")
    return False
