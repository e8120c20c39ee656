"""From measured values to a table, a JSON file and a plot; pure but for the writing itself.

Knows no system and no client. Values by row, system and round come in; a table in text, results.json and an SVG go out.
"""
