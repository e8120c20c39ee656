"""`highwater configs`, as kafka-configs.sh: settings of topics and brokers, quotas and credentials of users.

Source: kafka.admin.ConfigCommand.
"""
