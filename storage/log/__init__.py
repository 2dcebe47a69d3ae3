"""One partition's log, and what it knows of its leaders and producers."""
