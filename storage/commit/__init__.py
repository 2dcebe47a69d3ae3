"""Exactly-once commits: staged records, and the ledger that decides which of them are in the store."""
