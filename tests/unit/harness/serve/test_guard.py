"""Which Host headers are this machine's."""

from __future__ import annotations

import pytest

from harness.serve.guard import host_of, is_loopback

pytestmark = pytest.mark.guarantee("V6")


@pytest.mark.parametrize("header", ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.9.9.9", "[::1]:80", "[::1]"])
def test_own_names_are_loopback(header: str) -> None:
    assert is_loopback(host_of(header))


@pytest.mark.parametrize(
    "header",
    ["", "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:80"],
)
def test_other_names_are_not(header: str) -> None:
    assert not is_loopback(host_of(header))
