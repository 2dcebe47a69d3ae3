"""Records that are lines: values, keys and values, envelopes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.render.envelope_reading import rows_of_envelopes
from kafkafs.render.line_assembler import LineAssembler, Lines
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from kafkafs.render.key_values import KeyValueSyntax
    from kafkafs.render.packing import Packing
    from storage.record import EncodedBatch


class LineForm(NamedTuple):
    """Makes batches of lines, and says how much longer than the largest batch a fitting line may be.

    `pack` gets the number of the first line, if lines are numbered.
    """

    pack: Callable[[Lines, Packing, int], list[EncodedBatch]]
    growth: int = 1
    is_numbered: bool = False


class LineIntake:
    """Lines of one form. A last line without a newline is a record once it is flushed."""

    def __init__(self, form: LineForm) -> None:
        self._form = form
        self._assembler = LineAssembler(is_counting=form.is_numbered)

    def take(self, data: Buffer, packing: Packing) -> Sequence[Buffer]:
        """The batches of the lines that this write completes."""
        return self._packed(self._assembler.take(data, line_bytes_max=packing.max_bytes * self._form.growth), packing)

    def finish(self, packing: Packing) -> Sequence[Buffer]:
        """The batch of the unterminated last line."""
        return self._packed(self._assembler.finish(), packing)

    def refuse(self) -> None:
        """Drop the line in progress up to its newline, or to the next flush."""
        self._assembler.refuse()

    def _packed(self, lines: Lines, packing: Packing) -> Sequence[Buffer]:
        if not lines:
            return ()
        try:
            return self._form.pack(lines, packing, self._assembler.number)
        except StorageError:
            self.refuse()
            raise


def _pack_values(lines: Lines, packing: Packing, _number: int) -> list[EncodedBatch]:
    return packing.lines(lines.rest, begun=lines.begun)


def _pack_envelopes(lines: Lines, packing: Packing, number: int) -> list[EncodedBatch]:
    return packing.rows(rows_of_envelopes(lines.joined(), timestamp_ms=packing.timestamp_ms, number=number))


def key_values(syntax: KeyValueSyntax) -> LineForm:
    """Keys and values in this syntax."""
    return LineForm(
        lambda lines, packing, _: packing.rows(syntax.rows(lines.joined(), timestamp_ms=packing.timestamp_ms))
    )


VALUES: Final = LineForm(_pack_values)

# A byte of text becomes at most six, as in \u0000, and a header of two bytes, of nothing and null, 24.
ENVELOPES: Final = LineForm(_pack_envelopes, growth=16, is_numbered=True)
