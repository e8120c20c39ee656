"""What is measured: one module per kind of row, on the shapes of `base`.

Uses `clients`, `measure` and `systems`. A running system comes in; its values for one row and round go out.
"""
