"""The log behind the views of one partition, or of a directory that is no topic's partition."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from kafkafs.render.record_renderer import RecordRenderer
from kafkafs.tree.batch_cache import BatchCache
from kafkafs.tree.range_sizes import RangeSizes
from kafkafs.tree.replacements import Replacements
from kafkafs.tree.visible_log import VisibleLog
from storage.log import FollowedLog
from storage.segment import Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkafs.locator.formats import Format
    from kafkafs.locator.paths import LogPath
    from kafkafs.tree.options import TreeOptions
    from storage.config import TopicConfig
    from storage.files import Files
    from storage.log import Log, LogView
    from storage.log_dir import LogDir

NUMBERS_BITS: Final = 32  # of an identity, for what has become of the contents

_RECENT_MS: Final = 250

T = TypeVar("T")


class LogSource:
    """A log that views are made of, and how it is called in them.

    There is one for as long as the store holds the same partition; `identity` is its alone. It keeps its `home`, the
    directory in which it was first found, wherever it is moved. `writable` is the log once more if it may be written;
    `refusal` says what keeps it from that, though it may.
    """

    def __init__(
        self,
        path: LogPath,
        topic: str,
        partition: int,
        directory: Path,
        log: Log | FollowedLog,
        options: TreeOptions,
        *,
        files: Files,
        log_dir: LogDir,
        identity: int,
        writable: Log | None,
        refusal: OSError | None = None,
        batches: BatchCache | None = None,
    ) -> None:
        self.path = path
        self.topic = topic
        self.partition = partition
        self.home = directory
        self._directory = directory
        self.log = log
        self.options = options
        self.files = files
        self.log_dir = log_dir
        self.identity = identity
        self.writable = writable
        self.refusal = refusal
        self._directory_status = files.status(directory)
        self.lock = Lock()  # for what views of one log share
        self.batches = BatchCache() if batches is None else batches
        self.range_sizes = RangeSizes()
        self._looking = Lock()  # held while the log is looked at, so that no view follows on a newer one
        self._replacements = Replacements()
        self._visible: VisibleLog | None = None
        self._looked_ms = 0
        self._told: set[str] = set()
        self._renderers: dict[Format, RecordRenderer] = {}

    @property
    def config(self) -> TopicConfig:
        """What holds for the log now."""
        return self.log.config

    def renderer(self, form: Format) -> RecordRenderer:
        """What brings the log's records into a form."""
        made = self._renderers.get(form)
        if made is None:
            made = self._renderers[form] = RecordRenderer(form, self.topic, self.partition)
        return made

    @property
    def directory(self) -> Path:
        """Where the partition is, as far as that is known."""
        return self.log.directory if isinstance(self.log, FollowedLog) else self._directory

    def find_directory(self) -> Path:
        """Where the partition is, looked for if it is not where it was; raises `UnknownPartitionError`."""
        directory = self.directory
        if self.files.status(directory) is None:
            _ = self.log.view
        return self.directory

    def move(self, directory: Path, log_dir: LogDir) -> None:
        """The partition is in this directory now."""
        if directory != self._directory:
            self._directory, self.log_dir = directory, log_dir
            self._directory_status = self.files.status(directory)
            if isinstance(self.log, FollowedLog) and self.log.directory != directory:
                self.log.move(directory)

    def has_directory(self) -> bool:
        """Whether the directory is still where it was: what is written into one that was removed goes with it."""
        status, known = self.files.status(self.directory), self._directory_status
        return status is not None and known is not None and status.identity == known.identity

    def visible(self) -> VisibleLog:
        """What is to be seen of the log now."""
        with self._looking:
            view = self.log.view
            visible = self._visible
            if visible is None or visible.view is not view:
                number = self._replacements.look(view)
                visible = self._visible = VisibleLog(
                    view, self.options, self.batches, identity=self.identity << NUMBERS_BITS | number
                )
            return visible

    def recent(self, now_ms: int) -> VisibleLog:
        """What was to be seen of it a moment ago: to look at a log that somebody else writes takes its time.

        What is found in there is there, or was until then; what is not may have come since.
        """
        visible = self._visible
        if visible is not None and self.writable is None and 0 <= now_ms - self._looked_ms < _RECENT_MS:
            return visible
        self._looked_ms = now_ms
        return self.visible()

    def modified_ms(self, view: LogView) -> int:
        """When the log was last written, as its newest segment in the view tells; without any, its directory."""
        newest = view.segments[-1].path(Kind.LOG) if view.segments else self.directory
        status = self.files.status(newest)
        return 0 if status is None else status.modified_ms

    def ask(self, question: Callable[[VisibleLog], T]) -> T:
        """What is true of the log now; asked again if segments went away meanwhile."""
        visible = self.visible()
        while True:
            try:
                return question(visible)
            except FileNotFoundError:
                newer = self.visible()
                if newer is visible:
                    raise
                visible = newer

    def is_first(self, what: str) -> bool:
        """Whether this is the first time that somebody asks so: for what is to be said once."""
        with self.lock:
            is_first = what not in self._told
            self._told.add(what)
        return is_first
