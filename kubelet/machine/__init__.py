"""The machine that this node is: what it has, where it is reached, and who it is.

The one place that asks the kernel and the files of the system for it; ``root`` is another
machine's root directory in tests.
"""
