"""Turns the writes to one open descriptor into records, and these into batches.

A form of writing is an `Intake`: `LineIntake` for records that are lines, `RawIntake`, `BatchIntake`. None of them
knows the log; the caller that appends the batches tells the intake when the log refuses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafkafs.locator.views import View
from kafkafs.render.batch_intake import BatchIntake
from kafkafs.render.line_intake import ENVELOPES, VALUES, LineIntake, key_values
from kafkafs.render.raw_intake import RawIntake

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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


_INTAKES: Final[Mapping[View, Callable[[KeyValueSyntax], Intake]]] = {
    View.APPEND: lambda _: LineIntake(VALUES),
    View.APPEND_JSONL: lambda _: LineIntake(ENVELOPES),
    View.APPEND_KV: lambda syntax: LineIntake(key_values(syntax)),
    View.APPEND_RAW: lambda _: RawIntake(),
    View.APPEND_BATCH: lambda _: BatchIntake(),
}


def new_intake(view: View, syntax: KeyValueSyntax) -> Intake:
    """Return the intake of a descriptor that has just been opened on this file; the syntax is that of `append.kv`."""
    intake = _INTAKES.get(view)
    if intake is None:
        raise ValueError(f"nothing is appended by writing to {view}")
    return intake(syntax)
