"""Events to the API server: counted, bundled and bounded."""
