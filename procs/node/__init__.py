"""Everything said to or heard from the API server."""
