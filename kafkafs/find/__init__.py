"""Finding records, and saying where one lies: what `kafkafs explain`, `find` and `tail` print."""
