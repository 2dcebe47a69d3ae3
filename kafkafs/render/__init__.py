"""Records as bytes for people and programs, and what they write back as records: pure, and without a store."""
