"""Decoders and loaders of what was collected from the nodes. Nothing here imports the broker."""
