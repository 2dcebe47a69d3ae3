"""A log that is filled for tests, with varied records and a memory of what is to be read back.

`open_closed_log` has a store open its logs where there is nothing to recover. Partitions that were filled in one way
or another are in `specimens`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.log.log import Log
from storage.log.opening import open_sound_log
from storage.log.producers.state import AppendOrigin
from storage.record.compression import Codec
from storage.record.control import EndTransactionMarker
from storage.record.encoding import DEFAULT_FORM, BatchForm, batches_of_rows, marker_batch
from storage.record.layout import LAST_SEQUENCE, NO_TIMESTAMP, TimestampType
from storage.record.legacy_encoding import encode_entries, encode_wrapper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    from memory_logs import StandingClock

    from storage.log.appending import Appended
    from storage.record.encoding import Headers
    from storage.store.log_opener import LogRequest
    from storage.topics.checkpointing import PartitionCheckpoints

    WrittenRow: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]

PRODUCER_EXPIRATION_MS: Final = 86_400_000
BATCH_INTERVAL_MS: Final = 1000
KEYS: Final = (None, b"", b"key", "clé".encode())
VALUES: Final = (None, b"", b"value", b"\0" * 100, b"the same words " * 10)
HEADERS: Final[Sequence[Headers]] = (
    (),
    (("name", b"value"),),
    (("null", None), ("empty", b""), ("", b"unnamed")),
    (("twice", b"1"), ("twice", b"2"), ("größe", b"\xff\x00")),
)


def open_closed_log(request: LogRequest, _: PartitionCheckpoints) -> Log:
    """The log that the request is for, which is new or was closed properly."""
    rng = random.Random(0)
    parts = open_sound_log(
        request.clock,
        request.directory,
        request.config,
        rng=rng,
        start_offset=request.start_offset,
        producer_expiration_ms=PRODUCER_EXPIRATION_MS,
    )
    return Log(request.clock, request.directory, request.config, parts, rng=rng)


class Content(NamedTuple):
    """The contents of a record, without its place."""

    key: bytes | None
    value: bytes | None
    headers: Headers


class _OldRecord(NamedTuple):
    """A record of an old message set."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


class PartitionWriter:
    """Fills one log; `contents` are the records that a reader of everything finds in it, by their offsets.

    Each batch gets `leader_epoch` and moves the clock on. What the records are is left to chance, which the seed
    repeats.
    """

    def __init__(self, log: Log, clock: StandingClock, *, seed: str) -> None:
        self.log = log
        self.clock = clock
        self.rng = random.Random(seed)
        self.leader_epoch = 0
        self.contents: dict[int, Content] = {}
        self._next_sequences: dict[tuple[int, int], int] = {}  # by producer id and epoch

    @property
    def end_offset(self) -> int:
        """Return the log end offset."""
        return self.log.view.end_offset

    # As a leader

    def rows(self, count: int) -> list[WrittenRow]:
        """Records of every kind from about now, not in the order of their times."""
        rng = self.rng
        return [
            (
                self.clock.ms - rng.randrange(100),
                rng.choice(KEYS),
                rng.choice((*VALUES, rng.randbytes(rng.randrange(200)))),
                rng.choice(HEADERS),
            )
            for _ in range(count)
        ]

    def send(self, rows: Sequence[WrittenRow], form: BatchForm = DEFAULT_FORM) -> Appended:
        """Append one batch as a producer sends it."""
        (batch,) = batches_of_rows(rows, form=form)
        appended = self.log.append_as_leader(batch, leader_epoch=self.leader_epoch)
        self._remember(appended.first_offset, rows)
        return appended

    def begin_at(self, producer_id: int, sequence: int, *, epoch: int = 0) -> None:
        """Let this be the sequence with which the producer's next batch begins."""
        self._next_sequences[producer_id, epoch] = sequence

    def produce(self, producer_id: int, count: int = 1, *, epoch: int = 0, is_transactional: bool = False) -> bytes:
        """Append a batch with which a producer goes on, and return what it sent."""
        sequence = self._next_sequences.get((producer_id, epoch), 0)
        form = BatchForm(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=is_transactional
        )
        rows = self.rows(count)
        (batch,) = batches_of_rows(rows, form=form)
        appended = self.log.append_as_leader(batch, leader_epoch=self.leader_epoch)
        self._remember(appended.first_offset, rows)
        self.begin_at(producer_id, (sequence + count) % (LAST_SEQUENCE + 1), epoch=epoch)
        return batch.data

    def repeat(self, batch: bytes) -> Appended:
        """Send a batch once more."""
        return self.log.append_as_leader(batch, leader_epoch=self.leader_epoch)

    def end_transaction(
        self, producer_id: int, *, committed: bool, epoch: int = 0, coordinator_epoch: int = 0
    ) -> Appended:
        """Append the marker that ends a producer's transaction, or what would be one."""
        marker = EndTransactionMarker(committed=committed, coordinator_epoch=coordinator_epoch)
        data = marker_batch(marker, offset=0, timestamp_ms=self.clock.ms, producer_id=producer_id, producer_epoch=epoch)
        self.clock.ms += BATCH_INTERVAL_MS
        return self.log.append_as_leader(data, leader_epoch=self.leader_epoch, origin=AppendOrigin.COORDINATOR)

    # As a follower

    def replicate(self, offset: int, rows: Sequence[WrittenRow]) -> None:
        """Append one batch that another leader has put at the offset."""
        (batch,) = batches_of_rows(rows, base_offset=offset, form=BatchForm(leader_epoch=self.leader_epoch))
        self.log.append_as_follower([batch])
        self._remember(offset, rows)

    def replicate_old(
        self,
        count: int,
        magic: int,
        codec: Codec = Codec.NONE,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> None:
        """Append a message set of version 0 or 1."""
        rows = [(timestamp if magic else NO_TIMESTAMP, key, value, ()) for timestamp, key, value, _ in self.rows(count)]
        offset = self.end_offset
        records = [_OldRecord(at, timestamp, key, value) for at, (timestamp, key, value, _) in enumerate(rows, offset)]
        if codec is Codec.NONE:
            data = encode_entries(records, magic, timestamp_type=timestamp_type)
        else:
            data = encode_wrapper(records, magic, codec, timestamp_type=timestamp_type)
        self.log.append_as_follower([data])
        self._remember(offset, rows)

    def _remember(self, offset: int, rows: Sequence[WrittenRow]) -> None:
        self.contents |= {at: Content(key, value, headers) for at, (_, key, value, headers) in enumerate(rows, offset)}
        self.clock.ms += BATCH_INTERVAL_MS

    # At the ends

    def truncate_to(self, offset: int) -> None:
        """Truncate the log; the batch that has the offset goes whole."""
        cut = self.log.view.find(offset)
        assert cut is not None
        lost = next(iter(cut.records())).offset
        self.log.truncate_to(offset)
        self.contents = {at: content for at, content in self.contents.items() if at < lost}

    def advance_start(self, offset: int) -> None:
        """Hide what lies before the offset."""
        self.log.advance_start(offset)
        self.contents = {at: content for at, content in self.contents.items() if at >= offset}
