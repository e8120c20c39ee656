"""What of a session follows from its master."""

from __future__ import annotations

import pytest

from checkers.spark.master import LEAST_PIECES, MOST_PIECES, PIECE_BYTES, is_local, is_on_loopback, pieces_for

pytestmark = pytest.mark.guarantee("V7")


@pytest.mark.parametrize(
    ("master", "local", "loopback"),
    [
        ("local", True, True),
        ("local[*]", True, True),
        ("local[2]", True, True),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://127.0.0.1:7077", False, True),
        ("spark://localhost:7077", False, True),
        ("spark://localhost.example.org:7077", False, False),
        ("spark://127.0.0.1:7077,10.0.0.2:7077", False, False),
        ("spark://10.0.0.1:7077", False, False),
        ("yarn", False, False),
        ("k8s://https://127.0.0.1:6443", False, False),
    ],
)
def test_master_says_where_executors_are(master: str, local: bool, loopback: bool) -> None:
    assert (is_local(master), is_on_loopback(master)) == (local, loopback)


def test_shuffles_of_a_cluster_come_in_pieces_by_what_there_is_to_judge() -> None:
    assert [pieces_for(PIECE_BYTES * n) for n in (0, LEAST_PIECES, 100, 10 * MOST_PIECES)] == [
        LEAST_PIECES,
        LEAST_PIECES,
        100,
        MOST_PIECES,
    ]
