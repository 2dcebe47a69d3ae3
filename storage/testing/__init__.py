"""Tools for testing with storage, shipped for its users; storage's own tests use them too.

The codec here is an oracle: written from the description of the format alone, slow, obvious, and independent of the
kernel that tests compare with it. Only tests import this package. Each module is one tool: `codec`, `strategies` and
`mutations` make batches, `memory_files` and `faults` make disks that fail, `model` is a log to compare with.
"""
