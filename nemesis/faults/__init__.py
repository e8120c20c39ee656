"""The families of faults, one file each: what its kinds are, do to nodes, and show of their effect.

Uses nodes and the view of the cluster (`nemesis.base`). A family is registered in `nemesis.catalogue`; nothing else
names a kind. `grudges`, `reach` and `file_damage` are parts of the families of cuts and of files.
"""
