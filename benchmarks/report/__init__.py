"""From measured values to a table, a JSON file and a plot; pure but for the writing itself."""
