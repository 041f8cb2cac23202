"""What is passed to the runtime for a pod: sandbox and container configurations, and files."""
