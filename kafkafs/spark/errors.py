"""The errors of reading a store with Spark, beyond those of storage."""

from __future__ import annotations


class OptionError(ValueError):
    """The source does not take an option or the schema; the text says what it takes."""


class DataLossError(Exception):
    """Records that a query was planned to read are gone; the text says which, and how to go on without them."""


class SeenLessError(Exception):
    """A task sees less of a store than the driver did; the text says on which host, and what it lacks."""


class RowError(ValueError):
    """A row that is to be written cannot be a record; the text says why."""


class MissingTopicError(OptionError):
    """A topic is missing; the text says which topics there are."""


class MissingGroupError(OptionError):
    """A group is missing; the text says which."""


class JobError(Exception):
    """A job cannot be run, or has failed; the text says why, and what to do.

    `kind` is the name of the class of the error that kafkafs raised in a worker, if that is the reason.
    """

    def __init__(self, sentence: str, *, kind: str | None = None) -> None:
        super().__init__(sentence)
        self.kind = kind
