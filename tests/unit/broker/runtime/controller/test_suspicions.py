"""A suspicion is acted on once, also where nobody knows whether its note was written."""

from __future__ import annotations

import pytest

from broker.core.controller.cluster_state import StoreUnavailable
from broker.core.controller.stored import Term
from tests.support.stored_partition import cluster, stored


@pytest.mark.guarantee("C10")
@pytest.mark.parametrize("landed", [True, False])
def test_suspicion_whose_note_got_no_response_is_acted_on_after_the_reload(landed: bool) -> None:
    world = cluster()
    notes: list[int] = []
    answers = [StoreUnavailable("no answer")]

    def spend(term: Term, broker: int, broker_epoch: int) -> bool:
        fails = bool(answers)
        if not fails or landed:
            fresh = broker_epoch not in notes
            notes.append(broker_epoch)
            if not fails:
                return fresh
        raise answers.pop()

    world.store.spend_suspicion = spend  # type: ignore[method-assign]
    epoch = world.data.brokers[1].epoch
    with pytest.raises(StoreUnavailable):
        world.term.suspicions.suspect(1, epoch)
    world.term.load()
    assert (stored(world).leader, stored(world).isr) == (2, (2, 3))
    assert set(notes) == {epoch}
    assert [fields["target"] for event, fields in world.outbox.events if event == "suspicion"] == [1]
