"""runc for machines that withhold capabilities: a container gets those of them alone that this machine has.

`docker run --privileged` asks for all, and fails where one is missing, whether the container needs it or not. Standard
library only: a program that an engine starts. It changes what runc is given, and becomes runc.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

_NAMES = """\
chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service
net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct sys_admin
sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override
mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore
"""
"""Without CAP_, in the order of their numbers: capabilities(7)."""


def main(arguments: list[str]) -> None:
    """Does not return."""
    if "create" in arguments and "--bundle" in arguments:
        _lean(Path(arguments[arguments.index("--bundle") + 1]) / "config.json", "process")
    if "exec" in arguments and "--process" in arguments:
        _lean(Path(arguments[arguments.index("--process") + 1]))
    runc = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if runc is None:
        sys.exit("there is no runc")
    os.execv(runc, [runc, *arguments])


def _lean(file: Path, *keys: str) -> None:
    given = json.loads(file.read_text())
    process = given
    for key in keys:
        process = process[key]
    (bounding,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapBnd")]
    had = {
        f"CAP_{name.upper()}"
        for number, name in enumerate(_NAMES.split())
        if int(bounding.split()[1], 16) >> number & 1
    }
    kinds = process.get("capabilities") or {}
    for kind, names in kinds.items():
        kinds[kind] = [name for name in names if name in had]
    file.write_text(json.dumps(given))


if __name__ == "__main__":
    main(sys.argv[1:])
