"""What the operating system and the files say: CPU, memory, page cache, logs, and whether a run counts.

Reads /proc, psutil and the systems' log folders, and drops pages from the page cache. Processes and folders come in;
figures in seconds, bytes and records go out, or the reason why a run does not count.
"""
