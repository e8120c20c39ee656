"""Notices that another broker's process is gone, requests the other brokers' evidence, and has the controller act once
they agree.

Every broker keeps an empty connection to every other (`broker.net.link`); what that shows is a `LinkState` of
`broker.core.controller.suspicion`. The controller acts on any broker's failure, and every broker on the controller's.
Before the other brokers get a request, the suspect's registration is fixed (`prepare_suspicion`): the suspicion is
about that registration, and ends with it. A link's evidence is about the registration that the metadata cache had when
the link was opened; with the next one it begins anew. Rounds of PeerEvidence requests go on, at growing intervals,
while this broker's own evidence stands. Loop thread. Source: C10 of docs/guarantees.md; docs/adr/0011.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.core.controller.suspicion import Evidence, LinkEvent, LinkState, corroborated
from broker.model.ids import BrokerId
from broker.runtime.metadata.cache import Address, MetadataCache
from broker.runtime.ports import Loop, Peer
from broker.runtime.requests.condition_waits import Waits
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.api import ApiKey
from broker.wire.messages.peer_evidence import PeerEvidenceRequest, PeerEvidenceResponse
from broker.wire.primitives import MalformedFrame

_log = logging.getLogger("broker.suspicion")

_VERSION = 0
_EVIDENCE_TIMEOUT_MS = 250.0
# Brokers notice a death within milliseconds of each other; a disagreement that lasts for a second will stay.
_ROUND_MS = 20.0
_QUICK_ROUNDS = 40
_ROUND_MAX_MS = 500.0
_ANSWER_MS = _ROUND_MS
"""For so long a broker that is asked may wait for what its own link is about to show: until the next round."""
_LOOK_AGAIN_MS = 1.0
_DOUBT_MAX_MS = 1000.0
"""A broker whose process is gone is out of office long before; who is not, is only cut off from this one."""


class Link(Protocol):
    """A connection that carries nothing, and reports what happens to it (broker.net.link)."""

    def close(self) -> None:
        """No more attempts, no more events."""
        ...

    def look(self) -> None:
        """Report at once if the connection has ended."""
        ...


OpenLink = Callable[[Address, Callable[[LinkEvent], None]], Link]


@dataclass(frozen=True, slots=True)
class Suspect:
    """One registration that is suspected. controller_version: of `/controller_epoch`, where it is the controller."""

    broker: BrokerId
    broker_epoch: int
    controller_version: int | None = None


class SuspicionSink(Protocol):
    """The controller's side; callbacks come on the loop's thread."""

    @property
    def active(self) -> bool:
        """Whether this broker is controller, as far as it knows."""
        ...

    def prepare_suspicion(self, broker: BrokerId, then: Callable[[Suspect | None], None]) -> None:
        """The registration that a suspicion would be about; None where this broker has nothing to do about it."""
        ...

    def act_on_suspicion(self, suspect: Suspect) -> None:
        """Elect away from this registration, or take its controllership over."""
        ...

    def reachable(self, broker: BrokerId) -> None:
        """The broker accepts connections (again)."""
        ...


class _Watched:
    """One registration of one other broker. known_epoch: its broker epoch by UpdateMetadata, if that has one."""

    __slots__ = (
        "address",
        "broker_epoch",
        "doubted_until_ms",
        "gathering",
        "known_epoch",
        "link",
        "noted",
        "peer",
        "rounds",
        "state",
    )

    def __init__(self, address: Address, known_epoch: int | None) -> None:
        self.address = address
        self.known_epoch = known_epoch
        self.state = LinkState()
        self.link: Link | None = None
        self.peer: Peer | None = None
        self.gathering = False
        self.broker_epoch = known_epoch
        """The registration that what the link has shown since the last connection is about, once it is known."""
        self.noted = False
        self.rounds = 0
        self.doubted_until_ms = 0.0

    def close(self) -> None:
        for one in (self.link, self.peer):
            if one is not None:
                one.close()
        self.link = self.peer = None


class FailureDetector:
    """See the module. `on_metadata` after every change of the metadata cache."""

    def __init__(
        self,
        broker_id: BrokerId,
        cache: MetadataCache,
        loop: Loop,
        open_link: OpenLink,
        connect: Callable[[Address], Peer],
        controller: SuspicionSink,
    ) -> None:
        self._broker_id = broker_id
        self._cache = cache
        self._loop = loop
        self._open_link = open_link
        self._connect = connect
        self._controller = controller
        self._watched: dict[BrokerId, _Watched] = {}
        self._finished: set[Suspect] = set()
        self._closed = False
        self._looked_ms = -1.0
        self._doubt_listeners: list[Callable[[], None]] = []
        self._asked = Waits(loop)

    def add_doubt_listener(self, listener: Callable[[], None]) -> None:
        """Called when a broker is not doubted any more, since it is reached again."""
        self._doubt_listeners.append(listener)

    def doubted(self) -> dict[BrokerId, float]:
        """Brokers whose connection to this one has just ended, and until when, by the loop's clock, that may mean their
        end: within that time it is decided whether they are gone. Looks at the connections themselves.
        """
        now_ms = self._loop.now_ms()
        if now_ms - self._looked_ms >= _LOOK_AGAIN_MS:
            self._looked_ms = now_ms
            for watched in list(self._watched.values()):
                if watched.link is not None:
                    watched.link.look()
        return self.known_doubts()

    def known_doubts(self) -> dict[BrokerId, float]:
        """The same by what the connections have reported by themselves, which costs next to nothing."""
        now_ms = self._loop.now_ms()
        return {
            id_: watched.doubted_until_ms
            for id_, watched in self._watched.items()
            if watched.state.lost and watched.doubted_until_ms > now_ms
        }

    def gone(self) -> frozenset[BrokerId]:
        """Brokers whose connection to this one has ended, and which have refused every other since."""
        return frozenset(id_ for id_, watched in self._watched.items() if watched.state.suspicious)

    def close(self) -> None:
        """Close all links; suspect nobody any more."""
        self._closed = True
        for watched in self._watched.values():
            watched.close()
        self._watched.clear()
        self._asked.check()

    def on_metadata(self) -> None:
        """Follow who lives and where; after a change of controller, look again at the brokers that are this broker's to
        watch.
        """
        if self._closed:
            return
        wanted = {
            id_: (address, known.epoch if known.epoch >= 0 else None)
            for id_, known in self._cache.brokers.items()
            if id_ != self._broker_id and (address := self._cache.address(id_)) is not None
        }
        for id_, watched in list(self._watched.items()):
            if wanted.get(id_) != (watched.address, watched.known_epoch):
                watched.close()
                del self._watched[id_]
        for id_, (address, known_epoch) in wanted.items():
            if id_ not in self._watched:
                self._watch(id_, address, known_epoch)
        self._asked.check()
        for id_, watched in list(self._watched.items()):
            self._consider(id_, watched)

    def _watch(self, id_: BrokerId, address: Address, known_epoch: int | None) -> None:
        watched = self._watched[id_] = _Watched(address, known_epoch)
        watched.link = self._open_link(address, lambda event: self._on_link(id_, watched, event))

    def _on_link(self, id_: BrokerId, watched: _Watched, event: LinkEvent) -> None:
        if self._watched.get(id_) is not watched:
            return
        was_lost = watched.state.lost
        watched.state.apply(event)
        if watched.state.lost and not was_lost:
            watched.doubted_until_ms = self._loop.now_ms() + _DOUBT_MAX_MS
        elif was_lost and not watched.state.lost:
            for listener in self._doubt_listeners:
                listener()
        if event is LinkEvent.CONNECTED:
            watched.rounds = 0
            watched.noted = False
            watched.broker_epoch = watched.known_epoch
            # Also while a term is only beginning: it may have acted on the suspicion that this withdraws.
            self._controller.reachable(id_)
        self._asked.check()
        self._consider(id_, watched)

    # -- suspecting ------------------------------------------------------------------------------------------------

    def _consider(self, id_: BrokerId, watched: _Watched) -> None:
        if not watched.state.suspicious or watched.gathering or not self._concerns_us(id_):
            return
        watched.gathering = True
        if not watched.noted:
            watched.noted = True
            _log.info("broker %d closed its connection and refuses another: requesting evidence from the others", id_)
        self._controller.prepare_suspicion(id_, lambda suspect: self._prepared(watched, suspect))

    def _concerns_us(self, id_: BrokerId) -> bool:
        return self._controller.active or id_ == self._cache.controller_id

    def _prepared(self, watched: _Watched, suspect: Suspect | None) -> None:
        watched.gathering = False
        if suspect is None or suspect in self._finished or self._watched.get(suspect.broker) is not watched:
            return
        if watched.broker_epoch is None:
            watched.broker_epoch = suspect.broker_epoch
        if watched.broker_epoch != suspect.broker_epoch:
            # It has registered anew: UpdateMetadata has yet to say so, or this link to connect to it.
            return
        if watched.state.suspicious:
            watched.gathering = True
            self._gather_evidence(watched, suspect)

    def _gather_evidence(self, watched: _Watched, suspect: Suspect) -> None:
        responses: dict[BrokerId, Evidence | None] = {}
        others = [id_ for id_ in self._watched if id_ != suspect.broker]
        about = PeerEvidenceRequest(suspect.broker, watched.address.host, watched.address.port, suspect.broker_epoch)
        request = about.encode(_VERSION)

        def received(id_: BrokerId, evidence: Evidence | None) -> None:
            responses[id_] = evidence
            if len(responses) == len(others):
                self._judge(watched, suspect, responses)

        for id_ in others:
            self._request_evidence(id_, request, received)
        if not others:
            self._judge(watched, suspect, responses)

    def _request_evidence(
        self, id_: BrokerId, request: bytes, received: Callable[[BrokerId, Evidence | None], None]
    ) -> None:
        other = self._watched[id_]
        if other.peer is None:
            other.peer = self._connect(other.address)

        def on_response(view: memoryview) -> None:
            try:
                response = PeerEvidenceResponse.decode(_VERSION, view)
                received(id_, Evidence(response.evidence))
            except (MalformedFrame, ValueError):
                received(id_, None)

        other.peer.send(
            ApiKey.PEER_EVIDENCE,
            _VERSION,
            request,
            on_response,
            lambda reason: received(id_, None),
            _EVIDENCE_TIMEOUT_MS,
        )

    def _judge(self, watched: _Watched, suspect: Suspect, responses: dict[BrokerId, Evidence | None]) -> None:
        watched.gathering = False
        if self._closed or self._watched.get(suspect.broker) is not watched or not watched.state.suspicious:
            return
        if corroborated(responses):
            _log.warning(
                "the process of broker %d is gone: brokers %s agree on that",
                suspect.broker,
                [self._broker_id, *responses],
            )
            self._finished.add(suspect)
            self._controller.act_on_suspicion(suspect)
            return
        if watched.rounds in (0, 5):
            _log.info(
                "broker %d is not suspected: %s",
                suspect.broker,
                {id_: "silent" if evidence is None else evidence.name for id_, evidence in responses.items()},
            )
        delay_ms = min(_ROUND_MAX_MS, _ROUND_MS * 2 ** min(max(0, watched.rounds - _QUICK_ROUNDS), 16))
        watched.rounds += 1
        self._loop.call_later(delay_ms, lambda: self._look_again(suspect.broker, watched))

    def _look_again(self, id_: BrokerId, watched: _Watched) -> None:
        if not self._closed and self._watched.get(id_) is watched:
            self._consider(id_, watched)

    # -- bearing witness -------------------------------------------------------------------------------------------

    def handle_evidence(self, request: Request) -> None:
        """What this broker's own link to the named broker has shown; nothing of another registration.

        All brokers see the end of a process within a millisecond, and who asks has seen it a little earlier: an answer
        that does not confirm it waits for a moment, in which this broker's link may end, and be refused, as well.
        """
        body = decode_or_refuse(request, PeerEvidenceRequest)
        if body is None:
            return
        about = self._asked_about(body)
        if about is not None and about.link is not None:
            about.link.look()

        def answer() -> None:
            watched = self._asked_about(body)
            evidence = Evidence.UNKNOWN if watched is None else watched.state.evidence
            respond(request, PeerEvidenceResponse(0, evidence).encode(request.api_version))

        def settled() -> bool:
            watched = self._asked_about(body)
            return watched is None or watched.state.evidence is Evidence.GONE

        self._asked.until(settled, _ANSWER_MS, answer, answer)

    def _asked_about(self, body: PeerEvidenceRequest) -> _Watched | None:
        """None where this broker knows that registration under another address, or not at all."""
        watched = self._watched.get(body.broker_id)
        if (
            watched is not None
            and watched.address == Address(body.host, body.port)
            and watched.known_epoch in (None, body.broker_epoch)
        ):
            return watched
        return None
