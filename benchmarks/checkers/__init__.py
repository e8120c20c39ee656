"""The checkers measured at sizes up to 10⁹ micro-operations: histories with planted anomalies, made, judged, compared.

A micro-operation is a value sent or a record returned by a poll. `shape` says what a history of a size holds, `planted`
what is wrong in it, `chunks` its columns; `stored` and `lines` write it, as the tables that the checkers read or as
JSON lines. `judge` (the checkers) and `yardstick` (DuckDB) run as processes of their own, which `tree` measures; `cli`
does all of it, and `report` writes table, JSON and plots. Uses `checkers`; nothing imports it, and it is not installed.
"""
