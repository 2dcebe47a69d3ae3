"""A store's open logs. A log that cannot be opened for writing in a writable store is opened for reading.

A full disk is such a case: opening a log for writing takes space, and reading it needs none.
"""

from __future__ import annotations

import logging
import math
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from storage.budget import MustWaitError
from storage.errors import in_words
from storage.log import FollowedLog, Log

if TYPE_CHECKING:
    from storage.clock import Clock
    from storage.store import Store

RETRY_S: Final = 0.5
RETRY_SHARE: Final = 0.1  # of the time may go into retries: each starts recovery from the beginning

logger: Final = logging.getLogger(__name__)


class _Refused(NamedTuple):
    """A log that could not be opened for writing, and when to retry."""

    log: FollowedLog
    error: OSError
    due_s: float


class OpenedLogs:
    """The logs of partitions. Any thread may ask."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()  # held while `_refused` is looked at
        self._refused: dict[tuple[str, int], _Refused] = {}

    def get(self, topic: str, partition: int) -> tuple[Log | FollowedLog, OSError | None]:
        """Return a partition's log, and the error that keeps a writable one from being written, which is retried.

        Raises `UnknownPartitionError`, a `StorageError` if the log cannot be opened at all, or `MustWaitError` in a
        thread that opens no log.
        """
        place = (topic, partition)
        begun_s = self._clock.elapsed_s()
        with self._lock:
            refused = self._refused.get(place)
            if refused is not None:
                if begun_s < refused.due_s:
                    return refused.log, refused.error
                self._refused[place] = refused._replace(due_s=math.inf)  # other callers do not wait
        try:
            log = self._store.log(topic, partition)
        except MustWaitError:  # another thread asks again
            if refused is not None:
                with self._lock:
                    self._refused[place] = refused
            raise
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError | NotADirectoryError):
                return self._followed(place, error, begun_s), error
            self._forget(place)
            raise
        if refused is not None:
            self._forget(place)
            logger.warning("%s-%d can be written again", topic, partition)
        assert isinstance(log, Log | FollowedLog)
        return log, None

    def _forget(self, place: tuple[str, int]) -> None:
        with self._lock:
            self._refused.pop(place, None)

    def _followed(self, place: tuple[str, int], error: OSError, begun_s: float) -> FollowedLog:
        now_s = self._clock.elapsed_s()
        due_s = now_s + max(RETRY_S, (now_s - begun_s) / RETRY_SHARE)
        with self._lock:
            known = self._refused.get(place)
            if known is None:
                logger.warning("%s-%d can be read, and not written: %s", *place, in_words(error))
            log = self._store.follow_partition(*place) if known is None else known.log
            self._refused[place] = _Refused(log, error, due_s)
        return log
