"""kubeletctl: looks into a running kubelet, and asks it for things.

What it shows it reads from files and from ``/proc``, so it answers when every process is stuck.
``commands`` has one module per verb; importing one must stay cheap, since ``status`` has to answer
within 0.3 s, interpreter start included: what that path needs is a NamedTuple rather than a
dataclass, which takes a millisecond to make.
"""
