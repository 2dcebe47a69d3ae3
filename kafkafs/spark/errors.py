"""The errors of reading a store with Spark, beyond those of storage."""

from __future__ import annotations


class OptionError(ValueError):
    """An option, or the schema, is none that the source takes; the text says what it takes."""


class DataLossError(Exception):
    """Records that a query was to read are gone; the text says which, and how to go on without them."""


class MissingTopicError(OptionError):
    """A topic that is to be read is not there; the text says which are."""


class MissingGroupError(OptionError):
    """A group that is asked for is not there; the text says which."""


class JobError(Exception):
    """A job cannot be run, or has failed; the text says why, and what to do.

    `kind` is the name of the class of what kafkafs raised in a worker, if that is the reason.
    """

    def __init__(self, sentence: str, *, kind: str | None = None) -> None:
        super().__init__(sentence)
        self.kind = kind
