"""The segment store: pure and synchronous, with no knowledge of FUSE, the event loop or Spark.

It offers nothing itself. Each room says in its `__init__` what it offers: `storage.store` has `Store`, `storage.log`
the log of a partition, `storage.record` batches and records, `storage.verify` what is wrong with a store.
"""
