"""Makes one record of everything that is written between two flushes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkafs.render.unfinished import Unfinished
from storage.errors import RecordTooLargeError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from kafkafs.render.packing import Packing


class RawIntake:
    """One record for each run of writes, of its bytes as they are. A flush without a write before it makes none.

    No more is held than the largest batch may have; a run that exceeds it is refused at once, and to its end.
    """

    def __init__(self) -> None:
        self._run = Unfinished()
        self._is_dropping = False

    def take(self, data: Buffer, packing: Packing) -> Sequence[Buffer]:
        """Keep the bytes; no write completes the record."""
        if self._is_dropping:
            return ()
        if len(self._run) + memoryview(data).nbytes > packing.max_bytes:
            self._run.clear()
            self._is_dropping = True
            raise RecordTooLargeError(f"a record of more than {packing.max_bytes} bytes can fit no batch")
        try:
            self._run.add(data)
        except StorageError:
            self._run.clear()
            self._is_dropping = True
            raise
        return ()

    def finish(self, packing: Packing) -> Sequence[Buffer]:
        """The batch of the record that the run is."""
        run = bytes(self._run.take())
        self._is_dropping = False
        return packing.rows([(packing.timestamp_ms, None, run, ())]) if run else ()

    def refuse(self) -> None:
        """Do nothing: a run that was returned is no longer in progress."""
