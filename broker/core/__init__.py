"""The rules of a Kafka broker and controller, pure: no I/O, no clock (time is an argument), no logging.

Uses `broker.config`, `broker.wire` and `broker.model`. What happened comes in as values from the rooms above; what to
do, to write or to respond goes back as values.
"""
