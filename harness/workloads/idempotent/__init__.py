"""idempotent: producers with ids, epochs and sequences append batches and send them again until they are acknowledged.

`workload.Idempotent` is the registered kind. `producer` is what one idempotent producer may send next, `generators` the
load of several, `client` their requests. Polls, final phase and drains are append-poll's; operations go to the history.
Source: KIP-98, KIP-360; org.apache.kafka.clients.producer.internals (TransactionManager, Sender).
"""
