"""Kafka's Java client as a process that the lab talks to by lines.

`LabClient.java` is the program, `program` compiles it, `process` talks to it, `lines` says what a line means.
"""
