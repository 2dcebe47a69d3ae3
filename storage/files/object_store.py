"""What an object store answers: listings and versions of objects, each through `pyarrow.fs`, and errors in plain words.

A process has one `ObjectStore` for each bucket, container or host. What it lists counts for a second, so a command asks
once for what it looks at many times, and what changes shows within that second. An object that is missed is looked for
in a new listing. Nothing is written.
"""

from __future__ import annotations

import os
import re
import sys
from collections import OrderedDict
from contextlib import contextmanager
from hashlib import blake2b
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast
from urllib.parse import quote

from storage.clock import Clock
from storage.errors import ObjectStoreError, missing_file
from storage.files.opened import FileStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyarrow.fs import FileInfo, FileSystem

    from storage.files.uris import ObjectPlace

FRESH_S: Final = 1.0
"""How long an answer counts."""

_LISTINGS_MAX: Final = 4096
_SAID_MAX: Final = 300
_RETRY_LIMIT_S: Final = 30  # of Google's client, which goes on for 15 minutes unless it is told
_REASONS: Final = (
    (r"NO_SUCH_BUCKET|Bucket '.*' not found|ContainerNotFound", "there is no such bucket; see its name and its region"),
    (
        r"ACCESS_DENIED|ACCESS_KEY|SIGNATURE|status 40[13]|PERMISSION_DENIED|UNAUTHENTICATED|Auth|Expired|credential",
        (
            "access is denied; see which credentials pyarrow finds, in the environment, the profile or the machine's "
            "role, and what they allow"
        ),
    ),
    (
        r"SLOW_DOWN|THROTTL|REQUEST_LIMIT|SERVICE_UNAVAILABLE|status 503|status 429|ServerBusy|RESOURCE_EXHAUSTED",
        "the object store is busy and did not answer several tries; run this again later, or with fewer tasks",
    ),
    (
        r"NETWORK_CONNECTION|curlCode|UNAVAILABLE|resolve host|[Cc]onnect|timed out|libcurl",
        "the object store does not answer; see the network, and the region and endpoint_override of the URI",
    ),
    (
        r"libjvm|libhdfs|Prior attempt",
        "hdfs:// needs libhdfs, Java and Hadoop's class path; see pyarrow's documentation",
    ),
    (r"Unexpected query|URI|AzureOptions", "pyarrow does not understand the URI"),
)


class Listing(NamedTuple):
    """The names below a prefix. `changed_ms` is when this process first found them so, as a prefix has no time."""

    statuses: Mapping[str, FileStatus]
    changed_ms: int


class Version(NamedTuple):
    """What tells the contents of an object from others under its name."""

    size_bytes: int
    marks: tuple[tuple[str, str], ...]


class Ranges(Protocol):
    """An object of pyarrow's that is open."""

    def read_at(self, nbytes: int, offset: int) -> bytes:
        """Read so many bytes from a position."""


class ObjectStore:
    """One bucket, container or host. Any thread may use it."""

    def __init__(self, fs: FileSystem, root: str, uri: str, *, now_s: Callable[[], float] = monotonic) -> None:
        self.now_s = now_s
        self._fs = fs
        self._root = root.strip("/")
        self._is_absolute = root.startswith("/")
        self._device = _number(uri)
        self._clock = Clock()
        self._lock = Lock()
        self._listings: OrderedDict[str, tuple[float, Listing | None]] = OrderedDict()

    def listing(self, key: str, path: str) -> Listing | None:
        """Return the names below a prefix, at most a second old; None if it is not there."""
        now_s = self.now_s()
        with self._lock:
            taken_s, known = self._listings.get(key, (-FRESH_S, None))
        if now_s - taken_s < FRESH_S:
            return known
        statuses = self._statuses(key, path)
        if statuses is None:
            found = None
        elif known is not None and known.statuses == statuses:
            found = known
        else:
            found = Listing(statuses, self._clock.now_ms())
        with self._lock:
            self._listings[key] = now_s, found
            self._listings.move_to_end(key)
            if len(self._listings) > _LISTINGS_MAX:
                self._listings.popitem(last=False)
        return found

    def forget(self, key: str) -> None:
        """Take the next listing of the prefix that holds an object, or of the prefix itself, from the store."""
        with self._lock:
            for each in (key, key.rpartition("/")[0]):
                if each in self._listings:
                    self._listings[each] = -FRESH_S, self._listings[each][1]

    def status(self, key: str, path: str) -> FileStatus | None:
        """Return what the store says about one object, None if there is none."""
        from pyarrow.fs import FileType

        with answered(path):
            found = self._fs.get_file_info([self._place(key)])[0]
        return None if found.type is FileType.NotFound else self._status(key, found)

    def status_of_prefix(self, key: str, listing: Listing) -> FileStatus:
        """Return the status of a prefix with these names in it."""
        return self._directory_status(key, listing.changed_ms)

    def open(self, key: str, path: str) -> tuple[Ranges, Version]:
        """Open an object for reading at any position; raises `FileNotFoundError`. Costs one request."""
        try:
            with answered(path):
                file = self._fs.open_input_file(self._place(key))
                marks = dict(file.metadata() or {})
                size_bytes = file.size()
        except FileNotFoundError:
            self.forget(key)
            raise
        said = ((_text(name), _text(marks[name])) for name in marks)
        return cast("Ranges", file), Version(size_bytes, tuple(sorted(said)))

    def _statuses(self, key: str, path: str) -> dict[str, FileStatus] | None:
        from pyarrow.fs import FileSelector

        try:
            with answered(path):
                found = self._fs.get_file_info(FileSelector(self._place(key)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        statuses: dict[str, FileStatus] = {}
        for each in found:
            name = each.base_name
            if each.path == self._place(key):  # a key has an empty part after it, which Arrow leaves out
                continue
            status = self._status(f"{key}/{name}", each)
            is_name = name not in {"", ".", ".."} and "/" not in name
            if is_name and (status.is_directory or name not in statuses):  # a prefix may be called like an object
                statuses[name] = status
        return statuses

    def _status(self, key: str, found: FileInfo) -> FileStatus:
        from pyarrow.fs import FileType

        if found.type is FileType.Directory:
            return self._directory_status(key, 0)
        size_bytes, modified_ns = found.size or 0, found.mtime_ns or 0
        return FileStatus(
            size_bytes,
            modified_ns // 1_000_000,
            False,
            # An object that is written again is another one, as a file that replaces one is.
            (self._device, _number(f"{key}\n{size_bytes}\n{modified_ns}")),
            -(-size_bytes // 512),
            uid=os.geteuid(),
            gid=os.getegid(),
            mode=0o444,
        )

    def _directory_status(self, key: str, modified_ms: int) -> FileStatus:
        identity = (self._device, _number(key))
        return FileStatus(0, modified_ms, True, identity, uid=os.geteuid(), gid=os.getegid(), mode=0o555)

    def _place(self, key: str) -> str:
        place = "/".join(part for part in (self._root, key) if part)
        return f"/{place}" if self._is_absolute else place


_stores: Final[dict[tuple[str, str, str], ObjectStore]] = {}
_connecting: Final = Lock()


def object_store(place: ObjectPlace) -> ObjectStore:
    """Return this process's object store of a place; raises `ObjectStoreError`."""
    name = (place.scheme, place.authority, place.options)
    with _connecting:
        if name not in _stores:
            _stores[name] = _connected(place)
        return _stores[name]


def _connected(place: ObjectPlace) -> ObjectStore:
    uri = f"{place.scheme}://{place.authority}"
    try:
        from pyarrow.fs import FileSystem
    except ImportError:
        reason = f"object stores are read with pyarrow: run `pip install 'kafkafs[arrow]'` for {sys.executable}"
        raise ObjectStoreError(reason, path=uri) from None
    options = place.options
    if place.scheme == "gs" and "retry_limit_seconds" not in options:
        options = "&".join(filter(None, (options, f"retry_limit_seconds={_RETRY_LIMIT_S}")))
    asked = f"{place.scheme}://{quote(place.authority, safe='@:')}/{f'?{options}' if options else ''}"
    with answered(uri):
        fs, root = FileSystem.from_uri(asked)
    return ObjectStore(fs, root, f"{uri}?{place.options}")


@contextmanager
def answered(path: str) -> Iterator[None]:
    """Raise what an object store answers as an error of ours: `ObjectStoreError`, unless an object is not there."""
    try:
        yield
    except FileNotFoundError:
        raise missing_file(path) from None
    except NotADirectoryError:
        raise
    except (OSError, ValueError, NotImplementedError) as error:  # Arrow's own errors are of these
        raise ObjectStoreError(_reason(str(error)), path=path) from None


def _reason(said: str) -> str:
    line = " ".join(said.split())
    line = line if len(line) <= _SAID_MAX else f"{line[:_SAID_MAX]}…"
    meant = next((reason for pattern, reason in _REASONS if re.search(pattern, line)), "the object store failed")
    return f"{meant} (it said: {line})"


def _number(text: str) -> int:
    """Return a number that is the same in every process."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()) >> 1


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
