"""What ZooKeeper's leader surely knows of a session: the last time that it was touched there. Pure.

Reads prove nothing: a follower that is cut off from its quorum serves them from its own memory, while the leader gets
no more news of its sessions and expires them. A *proof* is a request that the quorum has carried out: the server that
took it had a leader with a quorum. But such a request does not touch the session at the leader. A follower sends its
leader its sessions in its responses to the leader's pings, one every half tick, in the same stream as the requests that
it forwards. So a proof shows that requests which were sent long enough before it have reached the leader; see
docs/adr/0009.
Source: LearnerHandler.run (PING, REQUEST, REVALIDATE), LearnerSessionTracker.touchSession, Leader.lead; ZooKeeper 3.9.
"""

from __future__ import annotations

import math
import threading


class SessionContact:
    """Of the session at hand. Times are monotonic ms; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session_id: int | None = None
        self._joined_ms = math.inf
        self._proven_ms = -math.inf
        """When a proof was sent that vouches for others, and for which none does yet."""
        self.touched_ms = -math.inf
        """ZooKeeper's leader was touched then or later, whoever leads: it does not expire the session before one
        time-out has passed since."""

    def joined(self, session_id: int, sent_ms: float) -> None:
        """A server accepted the session, requested at sent_ms. Called before the response to any request on that
        connection.

        Opening a session goes through the quorum, and touches it at the leader. So does the return to one, but that may
        be a deposed leader's work: this counts with the next proof.
        """
        with self._lock:
            if session_id != self._session_id:
                self._session_id = session_id
                self._proven_ms = self.touched_ms = sent_ms
                self._joined_ms = math.inf
            else:
                self._joined_ms = sent_ms

    def proven(self, sent_ms: float, apart_ms: float) -> None:
        """The quorum has carried out a request of ours, sent at sent_ms, and the session lived.

        apart_ms: what was sent so much earlier has reached the leader by then. Responses may be reported late and
        in any order: what was sent before the session was opened, under another one, lies before all that counts here.
        """
        with self._lock:
            if sent_ms >= self._joined_ms:
                self.touched_ms = max(self.touched_ms, self._joined_ms)
                self._joined_ms = math.inf
            if sent_ms >= self._proven_ms + apart_ms:
                self.touched_ms = max(self.touched_ms, self._proven_ms)
                self._proven_ms = sent_ms
