"""highwater's broker: a replicated, partitioned log that speaks Kafka's protocol, coordinated through ZooKeeper.

One process for each broker: `cli` starts it, `server` plugs its floors together. Imports nothing of the lab. Requests
come in over sockets and state over ZooKeeper's watches; responses, files in Kafka's formats and znodes go out.
"""

from __future__ import annotations

__version__ = "0.1.0"
