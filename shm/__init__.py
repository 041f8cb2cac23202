"""State that survives the process that wrote it.

Tables (one writer, many readers), the board (one row per process) and the recorder (one ring per
process) are plain files on tmpfs under the run directory, so that whoever comes next attaches by
path to what was there.
"""
