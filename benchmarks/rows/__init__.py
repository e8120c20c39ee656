"""What is measured: one module per kind of row."""
