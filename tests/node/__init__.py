"""Real container runtimes under test: private containerds, local images, loopback registries."""
