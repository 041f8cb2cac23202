"""One package per kind of process; ``supervisor/kinds.py`` lists them."""
