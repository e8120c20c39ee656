"""`highwater groups`, as kafka-consumer-groups.sh: list, describe, delete groups, reset and delete their offsets.

Source: org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.
"""
