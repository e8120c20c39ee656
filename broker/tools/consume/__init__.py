"""`highwater consume`, as kafka-console-consumer.sh: records to standard output.

Source: org.apache.kafka.tools.consumer.ConsoleConsumer.
"""
