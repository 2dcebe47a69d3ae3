"""Finding records, and saying where one lies: what `kafkafs explain` and `find` print, and `tail` looks for."""
