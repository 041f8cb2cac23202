"""Objects that pods here refer to, for the processes that need them."""
