"""The parts of `broker.log.log_manager`: the log dirs, the logs that are open in them, and what is done to all logs.

Paths, defaults and topics' settings come in; logs go out. Each part owns one kind of state or one kind of work.
Source: kafka LogManager.
"""
