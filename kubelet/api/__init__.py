"""The API's own types: the pod and what it is made of, from and to JSON documents.

Names are those of core/v1 in snake case. A field that is not set is ``""``, ``()``, ``{}`` or None;
an object that is set but empty (``emptyDir: {}``) is an instance with nothing in it.
"""
