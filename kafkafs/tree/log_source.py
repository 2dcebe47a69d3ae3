"""The log of the views of one partition, or of a directory that is no topic's partition."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from kafkafs.render.record_renderer import RecordRenderer
from kafkafs.tree.batch_cache import BatchCache
from kafkafs.tree.granted import Granted
from kafkafs.tree.known_damage import KnownDamage
from kafkafs.tree.range_sizes import RangeSizes
from kafkafs.tree.replacements import Replacements
from kafkafs.tree.visible_log import VisibleLog
from storage.log import FollowedLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.locator.formats import Format
    from kafkafs.locator.paths import LogPath
    from kafkafs.tree.options import TreeOptions
    from kafkafs.tree.rights import Rights
    from storage.config import TopicConfig
    from storage.files import Access, Directory, Files, FileStatus
    from storage.log import Log, LogView
    from storage.log_dir import LogDir

NUMBERS_BITS: Final = 32  # of an identity, for the generation of the contents

_RECENT_MS: Final = 250

T = TypeVar("T")


class LogSource:
    """A log that views are made of, and its name in them.

    One source lives for as long as the store holds the same partition, and `identity` is unique to it. It keeps its
    `home`, the directory in which it was first found, when it is moved. `writable` is the log itself if it may be
    written; `refusal` says why it cannot be although it may.
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
        rights: Rights,
        refusal: OSError | None = None,
        batches: BatchCache | None = None,
    ) -> None:
        self.path = path
        self.topic = topic
        self.partition = partition
        # Kept as strings: a `Path` takes ten times the memory of one.
        self._home = self._directory = log.directory.path if log.directory.path == str(directory) else str(directory)
        self.log = log
        self.options = options
        self.files = files
        self.log_dir = log_dir
        self.identity = identity
        self.writable = writable
        self.refusal = refusal
        self._place = None if writable is None else _Place(files, directory)
        self.lock = Lock()  # for what the views of one log share
        self.batches = BatchCache() if batches is None else batches
        self.rights = rights
        self._granted = Granted(log, rights)
        self._range_sizes: RangeSizes | None = None
        self._damage: KnownDamage | None = None
        self._looking = Lock()  # held while a view is taken, so that none replaces a newer one
        self._replacements = Replacements()
        self._visible: VisibleLog | None = None
        self._looked_ms = 0
        self._told: set[str] | None = None
        self._renderers: dict[Format, RecordRenderer] = {}

    @property
    def config(self) -> TopicConfig:
        """Return the log's effective settings."""
        return self.log.config

    @property
    def range_sizes(self) -> RangeSizes:
        """Return the sizes of the ranges that were counted."""
        with self.lock:
            if self._range_sizes is None:
                self._range_sizes = RangeSizes()
            return self._range_sizes

    @property
    def damage(self) -> KnownDamage:
        """Return the damage that was found."""
        with self.lock:
            if self._damage is None:
                self._damage = KnownDamage()
            return self._damage

    @property
    def keeps_damage(self) -> bool:
        """True if the damage that was found is kept."""
        return self._damage is not None

    def keep_damage(self, damage: KnownDamage) -> None:
        """Keep what is known from now on."""
        with self.lock:
            self._damage = damage

    def renderer(self, form: Format) -> RecordRenderer:
        """Return the renderer of the log's records."""
        made = self._renderers.get(form)
        if made is None:
            made = self._renderers[form] = RecordRenderer(form, self.topic, self.partition)
        return made

    @property
    def home(self) -> Path:
        """Return the directory in which the partition was first found."""
        return Path(self._home)

    @property
    def directory(self) -> Path:
        """Return the last known directory of the partition."""
        return Path(self.log.directory.path if isinstance(self.log, FollowedLog) else self._directory)

    def access(self) -> Access:
        """Return the access to the log's views: to what they showed before this is asked."""
        return self._granted.access()

    def access_to(self, name: str, status: FileStatus) -> Access:
        """Return the access to a view of one file in the directory."""
        return self.rights.of_file(self.access(), self.log.directory, name, status)

    def find_directory(self) -> Directory:
        """Return the partition's directory, and look for it if it is missing; raises `UnknownPartitionError`."""
        if self.log.directory.own_status() is None:
            _ = self.log.view
        return self.log.directory

    def move(self, directory: Path, log_dir: LogDir) -> None:
        """Record that the partition was moved to this directory."""
        if directory != self.directory or log_dir is not self.log_dir:
            self._directory, self.log_dir = str(directory), log_dir
            self._place = None if self.writable is None else _Place(self.files, directory)
            if isinstance(self.log, FollowedLog) and Path(self.log.directory) != directory:
                self.log.move(self.files.directory(directory))

    def has_directory(self) -> bool:
        """True if a writable log's directory is still there. What is written into a removed one is lost with it."""
        return self._place is not None and self._place.is_there()

    def visible(self) -> VisibleLog:
        """Return the visible log as it is now."""
        with self._looking:
            view = self.log.view
            view.check_may_go_through()
            visible = self._visible
            if visible is None or visible.view is not view:
                number = self._replacements.look(view)
                visible = self._visible = VisibleLog(
                    view, self.options, self.batches, identity=self.identity << NUMBERS_BITS | number
                )
            return visible

    def recent(self, now_ms: int) -> VisibleLog:
        """Return the visible log as it was a moment ago: a new look at another process's log takes time.

        A record that it has exists, or did until then; one that it lacks may have been appended since.
        """
        visible = self._visible
        if visible is not None and self.writable is None and 0 <= now_ms - self._looked_ms < _RECENT_MS:
            return visible
        self._looked_ms = now_ms
        return self.visible()

    def modified_ms(self, view: LogView) -> int:
        """Return when the log was last written, by the view's newest segment, or without any by its directory."""
        status = view.segments[-1].log_status() if view.segments else self.files.partition(self.directory).own_status()
        return 0 if status is None else status.modified_ms

    def ask(self, question: Callable[[VisibleLog], T], visible: VisibleLog | None = None) -> T:
        """Ask the log as it is now, or as it was a moment ago; ask again if segments were removed meanwhile.

        It is not asked again if all of it was replaced: other users may read what took its place.
        """
        visible = visible or self.visible()
        while True:
            try:
                with self.log.held():
                    return question(visible)
            except FileNotFoundError:
                newer = self.visible()
                if newer is visible or newer.view.directory is not visible.view.directory:
                    raise
                visible = newer

    def is_first(self, what: str) -> bool:
        """True at the first call with this key: for messages that are logged once."""
        with self.lock:
            told = self._told = set() if self._told is None else self._told
            is_first = what not in told
            told.add(what)
        return is_first


class _Place:
    """The directory that a log is written to."""

    def __init__(self, files: Files, path: Path) -> None:
        self._directory = files.partition(path)
        self._status = self._directory.own_status()

    def is_there(self) -> bool:
        """True if its path still leads to it."""
        return self._status is not None and self._directory.is_at_path(self._status.identity)
