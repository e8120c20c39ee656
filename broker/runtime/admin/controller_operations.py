"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments: what only the controller can do. Loop thread.

Requests are handed to the controller's thread; other brokers respond NOT_CONTROLLER, and clients send to the controller
instead. The response to an election follows when this broker's metadata shows the new leaders; an unclean election that
finds nobody to elect is tried again while a live replica has yet to report what its log holds. The response to a
reassignment follows when it is written, long before it is done. Source: KafkaApis.handleElectLeaders,
handleAlterPartitionReassignmentsRequest, DelayedElectLeader.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from broker.core.controller.preferred import ElectionType
from broker.core.controller.reassignment import Assignment
from broker.model.ids import TopicPartition
from broker.runtime.controller.controller import Controller
from broker.runtime.controller.reassignment import Refusal
from broker.runtime.controller.requested_elections import Result
from broker.runtime.controller.term import ControllerTerm
from broker.runtime.metadata.cache import MetadataCache
from broker.runtime.ports import Loop
from broker.runtime.requests.condition_waits import TIMEOUT_MAX_MS, Waits
from broker.runtime.requests.decoding import decode_or_refuse
from broker.runtime.requests.request import Request, respond
from broker.wire.errors import ErrorCode
from broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from broker.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_TOP_LEVEL_ERROR_FROM = 1
_UNHEARD_MS = 20.0
"""An election is tried again after so long, then after twice that, and so on up to `_UNHEARD_MAX_MS`."""
_UNHEARD_MAX_MS = 500.0
_ELECTION_TYPES = frozenset(ElectionType)

_Elected = tuple[Mapping[TopicPartition, Result], Sequence[TopicPartition]] | ErrorCode
"""Results, and which of these partitions may have a leader as soon as a replica has reported."""
_Altered = Mapping[TopicPartition, Refusal | None] | ErrorCode
_UnderWay = Mapping[TopicPartition, Assignment] | ErrorCode


class ControllerAdminHandlers:
    """See the module."""

    def __init__(self, controller: Controller, cache: MetadataCache, loop: Loop) -> None:
        self._controller = controller
        self._cache = cache
        self._loop = loop
        self._waits = Waits(loop)
        cache.add_listener(self._waits.check)

    # Elections

    def handle_elect_leaders(self, request: Request) -> None:
        """Preferred or unclean elections (KIP-460); responds once the metadata shows them, or at the time-out."""
        body = decode_or_refuse(request, ElectLeadersRequest)
        if body is None:
            return
        wanted = None
        if body.topic_partitions is not None:
            wanted = [TopicPartition(one.topic, index) for one in body.topic_partitions for index in one.partitions]
        if body.election_type not in _ELECTION_TYPES:
            _refuse_elections(request, wanted or [], ErrorCode.INVALID_REQUEST)
            return
        named, kind = wanted is not None, ElectionType(body.election_type)
        until_ms = self._loop.now_ms() + min(body.timeout_ms, TIMEOUT_MAX_MS)
        results: dict[TopicPartition, Result] = {}

        def elect(again: Sequence[TopicPartition] | None, next_ms: float) -> None:
            def do(term: ControllerTerm) -> _Elected:
                elections = term.admin.elections
                found = elections.elect(again, kind)
                return found, [tp for tp, result in found.items() if _nobody(result) and elections.unheard(tp)]

            def reply(found: _Elected) -> None:
                if isinstance(found, ErrorCode) and not results:
                    _refuse_elections(request, wanted or [], found)
                    return
                left_ms = until_ms - self._loop.now_ms()
                # For the partitions that were to be tried again, the first try's results stand.
                if not isinstance(found, ErrorCode):
                    results.update(found[0])
                    if found[1] and left_ms > 0:
                        later = min(2 * next_ms, _UNHEARD_MAX_MS)
                        self._loop.call_later(min(next_ms, left_ms), lambda: elect(found[1], later))
                        return
                self._await_elections(request, results, named, left_ms)

            self._controller.request(do, _refused, reply)

        elect(wanted, _UNHEARD_MS)

    def _await_elections(
        self, request: Request, results: dict[TopicPartition, Result], named: bool, timeout_ms: float
    ) -> None:
        awaited = {tp: result for tp, result in results.items() if isinstance(result, int)}

        def there(topic_partition: TopicPartition) -> bool:
            return self._cache.leader_of(*topic_partition)[0] == awaited[topic_partition]

        def reply() -> None:
            _respond_elections(request, results, ErrorCode.NONE, named)

        def timed_out() -> None:
            for topic_partition in awaited:
                if not there(topic_partition):
                    results[topic_partition] = (ErrorCode.REQUEST_TIMED_OUT, None)
            reply()

        self._waits.until(lambda: all(map(there, awaited)), timeout_ms, reply, timed_out)

    # Reassignments

    def handle_alter_partition_reassignments(self, request: Request) -> None:
        """Begin, replace or cancel reassignments (KIP-455); responds when that is written."""
        body = decode_or_refuse(request, AlterPartitionReassignmentsRequest)
        if body is None:
            return
        targets = {
            TopicPartition(topic.name, part.partition_index): None if part.replicas is None else tuple(part.replicas)
            for topic in body.topics
            for part in topic.partitions
        }

        def alter(term: ControllerTerm) -> _Altered:
            return term.admin.reassignments.alter(targets)

        def reply(results: _Altered) -> None:
            respond(request, _altered(results).encode(request.api_version))

        self._controller.request(alter, _refused, reply)

    def handle_list_partition_reassignments(self, request: Request) -> None:
        """The reassignments that are under way (KIP-455), all or those of named partitions."""
        body = decode_or_refuse(request, ListPartitionReassignmentsRequest)
        if body is None:
            return
        wanted = None
        if body.topics is not None:
            wanted = [TopicPartition(one.name, index) for one in body.topics for index in one.partition_indexes]

        def under_way(term: ControllerTerm) -> _UnderWay:
            return term.admin.reassignments.under_way(wanted)

        def reply(results: _UnderWay) -> None:
            respond(request, _listed(results).encode(request.api_version))

        self._controller.request(under_way, _refused, reply)


def _refused(error: ErrorCode) -> ErrorCode:
    return error


def _nobody(result: Result) -> bool:
    return isinstance(result, tuple) and result[0] is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def _refuse_elections(request: Request, wanted: Sequence[TopicPartition], error: ErrorCode) -> None:
    """The same error for all, at the top too where the version has room for it."""
    _respond_elections(request, dict.fromkeys(wanted, (error, None)), error, named=True)


def _respond_elections(
    request: Request, results: Mapping[TopicPartition, Result], error: ErrorCode, named: bool
) -> None:
    """named: the client named its partitions; otherwise those where nothing was to be done are left out."""
    by_topic: dict[str, list[PartitionResult]] = defaultdict(list)
    for (topic, partition), result in sorted(results.items()):
        code, text = result if isinstance(result, tuple) else (ErrorCode.NONE, None)
        if named or code is not ErrorCode.ELECTION_NOT_NEEDED:
            by_topic[topic].append(PartitionResult(partition, code, text))
    response = ElectLeadersResponse(
        error_code=error if request.api_version >= _TOP_LEVEL_ERROR_FROM else ErrorCode.NONE,
        replica_election_results=[ReplicaElectionResult(topic, parts) for topic, parts in by_topic.items()],
    )
    respond(request, response.encode(request.api_version))


def _altered(results: _Altered) -> AlterPartitionReassignmentsResponse:
    if isinstance(results, ErrorCode):
        return AlterPartitionReassignmentsResponse(error_code=results)
    by_topic: dict[str, list[ReassignablePartitionResponse]] = defaultdict(list)
    for (topic, partition), refusal in sorted(results.items()):
        code, text = refusal if refusal is not None else (ErrorCode.NONE, None)
        by_topic[topic].append(ReassignablePartitionResponse(partition, code, text))
    return AlterPartitionReassignmentsResponse(
        responses=[ReassignableTopicResponse(topic, parts) for topic, parts in by_topic.items()]
    )


def _listed(results: _UnderWay) -> ListPartitionReassignmentsResponse:
    if isinstance(results, ErrorCode):
        return ListPartitionReassignmentsResponse(error_code=results)
    by_topic: dict[str, list[OngoingPartitionReassignment]] = defaultdict(list)
    for (topic, partition), one in sorted(results.items()):
        going = [broker for broker in one.removing if broker in one.replicas]
        by_topic[topic].append(OngoingPartitionReassignment(partition, list(one.replicas), list(one.adding), going))
    return ListPartitionReassignmentsResponse(
        topics=[OngoingTopicReassignment(topic, parts) for topic, parts in by_topic.items()]
    )
