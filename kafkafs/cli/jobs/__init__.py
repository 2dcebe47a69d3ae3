"""The commands of `kafkafs spark`, one a module, and what they share."""
