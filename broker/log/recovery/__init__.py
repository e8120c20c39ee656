"""Opening a log: what a crash left is found, checked, cut or rebuilt before anybody reads it.

A folder comes in; a log comes out, or CorruptLog. Source: kafka.log.LogLoader.
"""
