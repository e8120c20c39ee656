"""`highwater-dump-log`: a log's files in words, in the lines of Kafka's own tool."""
