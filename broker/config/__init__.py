"""server.properties, from text to frozen settings.

`properties` reads the file, `table` knows every setting's name, type, default and bounds, `settings` checks and
freezes them. Uses `broker.wire` and `broker.model` only; what is wrong leaves as ConfigError, with name, value and
what would be right.
"""
