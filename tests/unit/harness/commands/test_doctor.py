from __future__ import annotations

from harness.commands.doctor import Row, State, table
from harness.tools.install import PACKAGES, install_command


def test_table_missing_row_shows_its_remedy_and_ok_row_does_not() -> None:
    text = table(
        [
            Row("ip", State.OK, "/usr/sbin/ip", "get ip"),
            Row("nodes: docker", State.MISSING, "no engine", "get docker"),
        ]
    )
    assert "ip             ok       /usr/sbin/ip" in text
    assert text.endswith("To get what is missing:\nnodes: docker: get docker")
    assert "get ip" not in text


def test_install_command_is_what_a_person_types() -> None:
    assert install_command(["iproute2", "procps"]) == (
        "sudo apt-get update && sudo apt-get install -y --no-install-recommends iproute2 procps"
    )


def test_packages_for_test_include_those_for_demo() -> None:
    assert {package.name for package in PACKAGES["demo"]} < {package.name for package in PACKAGES["test"]}
