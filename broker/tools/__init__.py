"""Kafka's shell tools for machines without Java: `highwater topics`, `configs`, `groups`, `produce` and others.

Each command has its own room or module: options and printed lines are those of the tool of Kafka 3.9 that it stands
for (docs/tools.md). `client` speaks to brokers, ours or Apache Kafka's, by `broker.wire`. Must not know how a broker
works: of the broker's other rooms it uses none but `config.properties` and the placement of new replicas, which
`reassign --generate` proposes. Arguments come in as text, what is printed goes out; nothing is imported before its
command is asked for.
"""
