"""The rules of classic consumer groups, pure: join, sync, heartbeat, leave, time-outs, static members.

`group.Group` is one group's state machine. Requests and times (monotonic ms) come in from the runtime;
effects go back: replies to requests that waited, and snapshots to be written to the log. No I/O, no clock, no loop:
member ids and the wall time of a snapshot come from callables that the runtime passes in. Uses `broker.wire`.
Source: kafka.coordinator.group.GroupCoordinator, GroupMetadata, MemberMetadata; KIP-62, 345, 389, 394, 559, 800, 814.
"""
