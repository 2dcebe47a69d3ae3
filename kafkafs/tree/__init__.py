"""The tree of files that a store is shown as: nodes and their contents, without a mount."""
