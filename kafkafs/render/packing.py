"""Records that were written, as the batches in which they are appended."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

from storage.record import DEFAULT_FORM, BatchForm, Codec, batches_of_lines, batches_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from storage.config import TopicConfig
    from storage.record import EncodedBatch, Row


class Packing(NamedTuple):
    """The time of records without their own, the largest batch allowed, and the fields of batches.

    Each batch counts its offsets from 0, as producers do. All is packed before anything is given back: a record that
    does not fit is a `RecordTooLargeError`, and one that cannot be written an `InvalidRecordError`.
    """

    timestamp_ms: int
    max_bytes: int
    form: BatchForm = DEFAULT_FORM

    @classmethod
    def of_topic(cls, config: TopicConfig, timestamp_ms: int) -> Self:
        """Pack as a topic's settings say; where they leave compression to producers, nothing is compressed."""
        codec = config.compression or Codec.NONE
        form = BatchForm(codec=codec, level=config.compression_level(codec))
        # No batch may be larger than a segment, which tests and small devices make smaller than a message may be.
        return cls(timestamp_ms, min(config.max_message_bytes, config.segment_bytes), form)

    def at(self, timestamp_ms: int) -> Packing:
        """Return the same at another time."""
        return Packing(timestamp_ms, self.max_bytes, self.form)

    def lines(self, block: Buffer, *, begun: Buffer) -> list[EncodedBatch]:
        """Each line as a value without a key. The first begins with `begun`; the last may lack its newline."""
        return list(
            batches_of_lines(
                block,
                base_offset=None,
                timestamp_ms=self.timestamp_ms,
                max_bytes=self.max_bytes,
                form=self.form,
                begun=begun,
            )
        )

    def rows(self, rows: Sequence[Row]) -> list[EncodedBatch]:
        """The rows in their order."""
        return list(batches_of_rows(rows, base_offset=None, max_bytes=self.max_bytes, form=self.form))
