"""The segment store: pure and synchronous, with no knowledge of FUSE, the event loop or Spark."""
