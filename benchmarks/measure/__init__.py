"""What the operating system and the files say: CPU, memory, page cache, logs, and whether a run counts."""
