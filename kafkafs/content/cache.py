"""All known sizes, and the one thread that counts the others."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from threading import Condition, Lock, Thread
from typing import TYPE_CHECKING, Final, TypeVar

from kafkafs.content.counted_log import CountedLog
from kafkafs.content.counted_text import CountedText
from kafkafs.content.held_files import HeldFiles
from kafkafs.content.kept_pieces import KeptPieces
from kafkafs.content.saved import SavedSizes
from storage.budget import MEMORY
from storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkafs.content.counted_file import CountedFile
    from kafkafs.render.batch_lines import BatchLines
    from storage.files import Files
    from storage.log import Isolation, ReadableLog

KNOWN_MAX: Final = 4096
"""How many logs, each in one form, and files are kept in memory; of others only the saved counts."""
WORTH_SAVING_BYTES: Final = 1024 * 1024
"""How much of a log must have been counted since its last save to be saved again at the end."""

_AGAIN_S: Final = 0.1
_RESTING_BYTES: Final = 16 * 1024 * 1024
"""How much of the budget may be in use while counting goes on, once readers need memory or the mount is quiet."""

T = TypeVar("T", CountedLog, CountedText)

logger = logging.getLogger(__name__)


class SizeCache:
    """The counts of logs and files, kept in `directory` from one process to the next unless that is None.

    Counting begins when a size is asked for. Where that takes much memory it ends once others need memory, or the
    budget's caches are told to shrink, and begins again when a size is asked for. `held` are the files that are open
    for readers. Any thread may ask; `close` ends the counting.
    """

    def __init__(self, files: Files, directory: Path | None, *, held: HeldFiles | None = None) -> None:
        self._saved = None if directory is None else SavedSizes(files, directory)
        self._lock = Lock()  # held while counts are looked up
        self._logs: OrderedDict[str, CountedLog] = OrderedDict()
        self._texts: OrderedDict[str, CountedText] = OrderedDict()
        self._saved_bytes: dict[str, int] = {}
        self._kept = KeptPieces()
        self.held = HeldFiles() if held is None else held
        self._worker = _Worker()
        self._account = MEMORY.account(self._rest)

    def log(self, directory: Path, log: ReadableLog, isolation: Isolation, form: str, lines: BatchLines) -> CountedLog:
        """Return the counts of the log in a directory, in the form of this name."""
        key = f"{directory}\0{isolation.value}\0{form}"
        with self._lock:
            known = self._logs.get(key)
            if known is not None and known.log is log:
                self._logs.move_to_end(key)
                return known
            self._saved_bytes.pop(key, None)
            restored = self._load(key)
            counted = CountedLog(log, lines, isolation, restored, key=key, kept=self._kept, held=self.held)
            return self._keep(self._logs, counted)

    def text(self, files: Files, path: Path, base_offset: int) -> CountedText:
        """Return the counts of the dump of a log's file."""
        key = str(path)
        with self._lock:
            known = self._texts.get(key)
            if known is not None:
                self._texts.move_to_end(key)
                return known
            return self._keep(self._texts, CountedText(files, path, base_offset, self._load(key), key=key))

    def begin(self, counted: CountedLog | CountedText) -> None:
        """Queue it for counting.

        A reader that goes on where counting ended counts by itself.
        """
        counted_bytes = -1

        def count_if_still() -> bool:
            nonlocal counted_bytes
            before, counted_bytes = counted_bytes, counted.counted_bytes
            if before != counted_bytes:
                return False
            self.count(counted, self._is_cancelled)
            return True

        self._worker.add(counted.key, count_if_still)

    def busy_s(self) -> float:
        """Return the processor time that counting has taken beside the requests, in seconds."""
        return self._worker.busy_s()

    def _rest(self, _: int) -> None:
        self._worker.is_resting = True

    def _is_cancelled(self) -> bool:
        is_much = self._worker.is_resting and MEMORY.limit_bytes - MEMORY.left_bytes > _RESTING_BYTES
        return is_much or self._worker.is_stopped

    def count(self, counted: CountedLog | CountedText, is_cancelled: Callable[[], bool]) -> None:
        """Count the present contents, and save the counts."""
        counted.count_all(is_cancelled)
        self._save(counted)

    def close(self) -> None:
        """End the counting, and save the counts. Closing twice is harmless."""
        self._worker.stop()
        with self._lock:
            known: list[CountedLog | CountedText] = [*self._logs.values(), *self._texts.values()]
        for counted in known:
            if counted.counted_bytes - self._saved_bytes.get(counted.key, 0) >= WORTH_SAVING_BYTES:
                self._save(counted)
        self.held.close()

    def _load(self, key: str) -> list[CountedFile]:
        return [] if self._saved is None else self._saved.load(key)

    def _keep(self, known: OrderedDict[str, T], counted: T) -> T:
        known[counted.key] = counted
        known.move_to_end(counted.key)
        if len(known) > KNOWN_MAX:
            key, _ = known.popitem(last=False)
            self._saved_bytes.pop(key, None)
        return counted

    def _save(self, counted: CountedLog | CountedText) -> None:
        if self._saved is not None and (worth_saving := counted.counted()):
            self._saved.save(counted.key, worth_saving)
            self._saved_bytes[counted.key] = counted.counted_bytes


class _Worker:
    """A thread that does one task after another; of those with the same key that wait, one is enough.

    A task that returns that it is not done is retried later, after the others. `is_resting` is for the tasks to see:
    it ends with the next one that is added.
    """

    def __init__(self) -> None:
        self.is_stopped = self.is_resting = False
        self._changed = Condition()
        self._tasks: OrderedDict[str, Callable[[], bool]] = OrderedDict()
        self._thread: Thread | None = None

    def add(self, key: str, task: Callable[[], bool]) -> None:
        with self._changed:
            if self.is_stopped:
                return
            self._tasks.setdefault(key, task)
            self.is_resting = False
            if self._thread is None:
                self._thread = Thread(target=self._run, name="kafkafs-sizes", daemon=True)
                self._thread.start()
            self._changed.notify()

    def busy_s(self) -> float:
        with self._changed:
            number = None if self._thread is None or self.is_stopped else self._thread.ident
        return 0.0 if number is None else time.clock_gettime(time.pthread_getcpuclockid(number))

    def stop(self) -> None:
        with self._changed:
            self.is_stopped = True
            self._tasks.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._tasks or self.is_stopped)
                if self.is_stopped:
                    return
                key, task = next(iter(self._tasks.items()))
                self._tasks.move_to_end(key)
            try:
                is_done = task()
            except (StorageError, OSError) as error:
                logger.info("the size of %s stays unknown: %s", key.partition("\0")[0], error)
                is_done = True
            with self._changed:
                if is_done:
                    self._tasks.pop(key, None)
                elif not self.is_stopped:
                    self._changed.wait(_AGAIN_S / len(self._tasks))
