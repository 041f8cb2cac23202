"""What the processes share about pods: the records of what the runtime holds, and their events."""
