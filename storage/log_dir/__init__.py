"""One log directory: which broker it belongs to, how it was closed, and what stands in it."""
