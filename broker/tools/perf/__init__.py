"""`highwater perf producer` and `perf consumer`, as kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh.

They measure a cluster by this client, which is one thread of Python: where the client is what limits, compare runs of
it with each other alone. Source: org.apache.kafka.tools.ProducerPerformance, ConsumerPerformance.
"""
