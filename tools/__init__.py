"""Programs that make files of this repository from others. Nothing of them is installed, and no package imports them.

They read sources and tests as text. What they write is committed, and a test holds it against what they would write.
`dead_code` writes nothing: it looks for names that nothing uses, as a part of `make check`.
"""
