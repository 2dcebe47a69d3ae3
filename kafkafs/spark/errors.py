"""How reading a store with Spark can go wrong, beyond what storage says."""

from __future__ import annotations


class OptionError(ValueError):
    """An option, or the schema, is none that the source takes; the text says what it takes."""


class DataLossError(Exception):
    """Records that a query was to read are gone; the text says which, and how to go on without them."""


class JobError(Exception):
    """A job cannot be run, or has failed; the text says why, and what to do."""
