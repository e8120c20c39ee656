"""`highwater topics`, as kafka-topics.sh: list, describe, create, alter and delete topics.

Source: org.apache.kafka.tools.TopicCommand.
"""
