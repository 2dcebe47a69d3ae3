"""One segment's files: the log and what is kept beside it."""
