"""Turns the writes to one open descriptor into records, and these into batches.

A form of writing is an `Intake`: `LineIntake` for records that are lines, `RawIntake`, `BatchIntake`. None of them
knows the log; the caller that appends the batches tells the intake when the log refuses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkafs.locator.paths import PartitionFile
from kafkafs.render.batch_intake import BatchIntake
from kafkafs.render.line_intake import ENVELOPES, VALUES, LineIntake, key_values
from kafkafs.render.raw_intake import RawIntake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from kafkafs.render.key_values import KeyValueSyntax
    from kafkafs.render.packing import Packing


class Intake(Protocol):
    """The writes to one descriptor, in their order.

    What raises has refused all of what it was given: nothing of that may be stored. The errors are those of
    `InvalidRecordError`; `RecordTooLargeError` and `BatchTooLargeError` among them say that something is too large.
    """

    def take(self, data: Buffer, packing: Packing) -> Sequence[Buffer]:
        """The batches of all records that this write completes."""

    def finish(self, packing: Packing) -> Sequence[Buffer]:
        """The batches of what only a flush completes."""

    def refuse(self) -> None:
        """Be told that what was last given back is not stored: the record in progress is dropped up to its end."""


def new_intake(file: PartitionFile, syntax: KeyValueSyntax) -> Intake:
    """The intake of a descriptor that has just been opened on this file; the syntax is that of `append.kv`."""
    match file:
        case PartitionFile.APPEND:
            return LineIntake(VALUES)
        case PartitionFile.APPEND_KV:
            return LineIntake(key_values(syntax))
        case PartitionFile.APPEND_JSONL:
            return LineIntake(ENVELOPES)
        case PartitionFile.APPEND_RAW:
            return RawIntake()
        case PartitionFile.APPEND_BATCH:
            return BatchIntake()
        case _:
            raise ValueError(f"nothing is appended by writing to {file}")
