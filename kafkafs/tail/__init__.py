"""Following many partitions at once: what `kafkafs tail` prints.

A log is followed as the library follows it, and what is looked for in it is what `kafkafs find` looks for.
"""
