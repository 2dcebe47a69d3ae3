"""The tree of a store as a mounted file system: the only room that knows FUSE, and asynchronous code."""
