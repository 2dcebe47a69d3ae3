"""The topics of a store: which there are, what holds for each, and their open logs."""
