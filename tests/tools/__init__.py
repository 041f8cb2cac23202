"""What the tests need and this repository does not hold: Go tools and Debian packages."""
