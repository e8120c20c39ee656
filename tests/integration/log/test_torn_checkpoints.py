from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.files import checkpoints
from broker.model.ids import TopicPartition


def test_checkpoint_of_epochs_torn_anywhere_is_never_believed(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.LEADER_EPOCHS
    whole = checkpoints.format_epochs([(0, 3), (1, 61), (2, 66)])
    for length in range(len(whole)):
        path.write_text(whole[:length])
        with pytest.raises(ValueError, match=checkpoints.LEADER_EPOCHS):
            checkpoints.read_epochs(str(path))
    path.write_text(whole)
    assert checkpoints.read_epochs(str(path)) == [(0, 3), (1, 61), (2, 66)]


def test_checkpoint_of_offsets_torn_anywhere_is_never_believed(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.RECOVERY_POINTS
    whole = checkpoints.format_offsets({TopicPartition("t", 0): 1234, TopicPartition("t", 1): 99})
    for length in range(len(whole)):
        path.write_text(whole[:length])
        with pytest.raises(ValueError, match=checkpoints.RECOVERY_POINTS):
            checkpoints.read_offsets(str(path), [])
