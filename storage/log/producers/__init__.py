"""A partition's producers: their states, their transactions, and the snapshots that keep both."""
