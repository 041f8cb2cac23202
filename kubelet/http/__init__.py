"""HTTP as probes and hooks speak it: where a request goes, how it reads, what an answer says."""
