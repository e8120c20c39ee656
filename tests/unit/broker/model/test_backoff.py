from __future__ import annotations

from broker.model.backoff import Backoff


def test_backoff_doubles_to_its_maximum_within_the_jitter() -> None:
    backoff = Backoff(50, 1000, seed=1)
    for nominal_ms in [50, 100, 200, 400, 800, 1000, 1000]:
        assert 0.8 * nominal_ms <= backoff.next_ms() <= 1.2 * nominal_ms


def test_backoff_reset_starts_over() -> None:
    backoff = Backoff(50, 1000, seed=1)
    for _ in range(9):
        backoff.next_ms()
    backoff.reset()
    assert backoff.next_ms() <= 60


def test_backoff_two_peers_do_not_come_back_in_step() -> None:
    one, two = Backoff(seed=1), Backoff(seed=2)
    assert [one.next_ms() for _ in range(4)] != [two.next_ms() for _ in range(4)]
