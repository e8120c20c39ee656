"""Names, folders and small files of a log dir: checkpoints, marks of a clean stop, who holds the dir, open descriptors.

The lowest floor of the log: paths and values come in, bytes on disk go out.
"""
