"""`open`, and the store that it opens."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from kafkafs.library.context import Context
from kafkafs.library.topic import Topic
from storage.clock import Clock
from storage.errors import NotAStoreError, ReadOnlyStoreError, StorageError, StoreLockedError
from storage.files import Files, NamedFiles, store_path
from storage.log import Isolation
from storage.log_dir import are_vacant, read_server_properties
from storage.store import FlushThread, LogOpener, Mode, recover_unclosed_logs
from storage.store import Store as StoredTopics
from storage.verify import Verification

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from storage.verify import Finding

logger: Final = logging.getLogger("kafkafs")

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"
"""One log directory, or several: a text with commas between them, as in `log.dirs`, or an iterable."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})
_written_here: Final[set[str]] = set()
"""The log directories that this process has open for writing."""
_noting: Final = Lock()
os.register_at_fork(after_in_child=_written_here.clear)


def open(  # noqa: A001 -- as gzip and io call theirs
    store: Paths,
    *,
    write: bool = False,
    foreign: bool = False,
    server_properties: str | os.PathLike[str] | None = None,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    follow_links: bool = False,
) -> Store:
    """Open a store for reading, also while a broker or a mount has it; not one byte of it changes.

    With `write`, it is locked, and made where nothing or an empty directory is. A store that kafkafs did not make is
    opened for writing only if `foreign` says so. `server_properties` is a broker's file of settings, which hold where a
    topic says nothing. A link in the place of a partition's directory is followed only with `follow_links`. Raises
    `NotAStoreError`, `StoreLockedError`, `ReadOnlyStoreError` or another `StorageError`.
    """
    paths = _paths(store)
    if isolation not in {each.value for each in Isolation}:
        raise ValueError(f"isolation is 'read_committed' or 'read_uncommitted', not {isolation!r}")
    files, clock = Files(follows_partitions=follow_links), Clock()
    settings = {} if server_properties is None else read_server_properties(NamedFiles(), Path(server_properties))
    if not write:
        opened = StoredTopics.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock, broker_settings=settings)
    else:
        with _writing_here(paths):
            opened = _opened_for_writing(paths, files, clock, settings, is_foreign_allowed=foreign)
    return Store(Context(opened, files, clock, Isolation(isolation)), settings)


class Store(Mapping[str, Topic]):
    """An open store: a mapping of the names of its topics to them. Close it, or use it in a `with` statement.

    Any thread may use it. What a broker or a mount does meanwhile is seen.
    """

    def __init__(self, context: Context, settings: Mapping[str, str]) -> None:
        self._context = context
        self._settings = settings

    def __repr__(self) -> str:
        state = "closed" if self._context.closed.is_set() else self._context.store.mode.value
        return f"<kafkafs.Store {','.join(map(str, self.paths))} ({state})>"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def paths(self) -> tuple[Path, ...]:
        """The log directories."""
        return tuple(log_dir.path for log_dir in self._context.store.log_dirs)

    def __getitem__(self, topic: str) -> Topic:
        self._context.store.look_again()
        self._context.store.topics.partitions(topic)
        return Topic(self._context, topic)

    def __iter__(self) -> Iterator[str]:
        self._context.store.look_again()
        return iter(list(self._context.store.topics.inventory.topics))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def create(self, topic: str, partitions: int | None = None, settings: Mapping[str, str] = _NONE) -> Topic:
        """Make a topic, by default with `num.partitions`, and with settings of its own such as `retention.ms`.

        Raises `TopicExistsError`, `InvalidTopicError` or `ConfigError`, and `ReadOnlyStoreError`.
        """
        if self._context.closed.is_set():
            raise StorageError("the store is closed", path=self.paths[0])
        self._context.check_process()
        for name, value in settings.items():
            if not isinstance(value, str):
                raise TypeError(f"a setting is a text, and {name} is {value!r}: write {str(value)!r}")
        if partitions is not None and not isinstance(partitions, int):
            raise TypeError(f"partitions are a number, not {partitions!r}")
        self._context.store.topics.create(topic, partitions, settings)
        return Topic(self._context, topic)

    def verify(self, *topics: str, jobs: int = 1) -> Iterator[Finding]:
        """Check every checksum, index entry, offset and snapshot of these topics, or of all, and tell what is wrong.

        Up to `jobs` processes do the work. Raises `UnknownPartitionError` for a topic that is not there.
        """
        verification = Verification(
            self._context.files, self.paths, topics=topics, jobs=jobs, server_properties=self._settings
        )
        return verification.run(lambda: None)

    def close(self) -> None:
        """Close the store; following it ends. One that was open for writing is on disk, and marked as closed properly.

        Logs that a crash left, and that were not opened, are recovered before that. Closing twice is harmless.
        """
        if not (self._context.closed.is_set() or self._context.is_anothers):
            self._recover_rest()
        self._close()

    def _recover_rest(self) -> None:
        rest = recover_unclosed_logs(self._context.store, self._context.clock, is_stopped=lambda: False)
        for failure in rest.failures:
            logger.warning("%s; its log directory still counts as not closed properly", failure)

    def _close(self) -> None:
        if self._context.closed.is_set():
            return
        self._context.closed.set()
        if self._context.is_anothers:
            return
        try:
            self._context.store.close()
        finally:
            if self._context.store.mode is Mode.READ_WRITE:
                _written_here.difference_update(map(os.path.realpath, self.paths))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._close()


def _paths(store: Paths) -> list[Path]:
    if isinstance(store, str):
        paths = [store_path(part) for part in store.split(",") if part]
    elif isinstance(store, os.PathLike):
        paths = [Path(store)]
    else:
        paths = [Path(each) for each in store]
    if not paths:
        raise NotAStoreError("a store is the path of a directory, or several with commas between them")
    return paths


@contextmanager
def _writing_here(paths: list[Path]) -> Iterator[None]:
    """Note what this process opens for writing: a lock of Kafka's kind keeps out other processes alone.

    One that opened a store twice would lose the lock of the first with the second.
    """
    names = {os.path.realpath(path) for path in paths}
    with _noting:
        taken = names & _written_here
        if taken:
            raise StoreLockedError("this process has it open for writing already", path=min(taken))
        _written_here.update(names)
    try:
        yield
    except BaseException:
        _written_here.difference_update(names)
        raise


def _opened_for_writing(
    paths: list[Path], files: Files, clock: Clock, settings: Mapping[str, str], *, is_foreign_allowed: bool
) -> StoredTopics:
    open_log = LogOpener(in_background=FlushThread())
    if are_vacant([files.directory(path) for path in paths]):
        return StoredTopics.create(paths, files=files, clock=clock, open_log=open_log, broker_settings=settings)
    if not is_foreign_allowed:
        with StoredTopics.open(paths, mode=Mode.READ_ONLY, files=files, clock=clock) as looked_at:
            if not looked_at.is_made_here:
                raise ReadOnlyStoreError(
                    "kafkafs did not make this store; open it with foreign=True to change it all the same",
                    path=paths[0],
                )
    return StoredTopics.open(
        paths, mode=Mode.READ_WRITE, files=files, clock=clock, open_log=open_log, broker_settings=settings
    )
