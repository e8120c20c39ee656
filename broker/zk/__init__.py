"""ZooKeeper: znode paths and layouts, a typed client over kazoo, and the stores of brokers, topics and controller.

Uses `broker.core` for values and knows the runtime by nothing: it is what stands behind the runtime's ports. Writes
come in from there and have a known outcome; watches and the session's deadline go out (docs/adr/0006, docs/adr/0009).
"""
