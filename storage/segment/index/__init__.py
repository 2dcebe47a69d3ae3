"""A segment's indexes: from an offset or a time to a place in the log, and which transactions were aborted."""
