"""`highwater produce`, as kafka-console-producer.sh: lines of standard input become records.

Source: kafka.tools.ConsoleProducer.
"""
