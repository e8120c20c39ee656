"""Programs that produce and consume: the lean C client, librdkafka's, and the tools that come with Kafka.

Uses `process`, and compilers and Java of this machine. Topic, rate and length come in; the program's own figures go
out, as values.
"""
