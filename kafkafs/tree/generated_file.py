"""Files whose bytes are made when a reader asks for them: small texts that show the state of that moment."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkafs.tree.errors import GoneError
from kafkafs.tree.node import Attributes, File
from kafkafs.tree.shared_text import TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkafs.locator.paths import TreePath
    from kafkafs.tree.errors import TreeError
    from kafkafs.tree.node import Reading
    from kafkafs.tree.rights import Rights
    from kafkafs.tree.shared_text import Text
    from storage.clock import Clock
    from storage.files import Access

_KEPT_S: Final = 1.0


class Generated(NamedTuple):
    """What a file holds, and since when. If something is missing, reading ends with its `failure`."""

    data: bytes
    modified_ms: int
    failure: TreeError | None = None


class GeneratedFile(File):
    """A file that is made whole. What is opened never changes.

    The text is reused for a second, so that `stat` and the `open` after it agree about the size. Users who may not read
    it learn nothing from its size: `stat` says none if they can reach the file.
    """

    def __init__(
        self,
        path: TreePath,
        clock: Clock,
        *,
        rights: Rights | None = None,
        access: Callable[[], Access] | None = None,
        identity: int = 0,
    ) -> None:
        super().__init__(path, identity=identity)
        self._clock = clock
        self._rights = rights
        self._access = access
        self._made: tuple[float, Generated] | None = None  # replaced, never changed

    @abstractmethod
    def generate(self) -> Generated:
        """Make what the file holds now."""

    def attributes(self) -> Attributes:
        """Report the exact size, unless finding it takes long, it is hidden, or reading ends with an error."""
        access = self.access()
        if self.takes_long() or self.hides_size(access):
            return Attributes(size_bytes=None, modified_ms=self.unread_ms(), access=access)
        made = self.made()
        access = self.access()  # that to what the text was made from, which may be another log than before
        is_told = made.failure is None and not self.hides_size(access)
        return Attributes(len(made.data) if is_told else None, modified_ms=made.modified_ms, access=access)

    @property
    def held_bytes(self) -> int:
        """Return how much memory the text takes that was generated last."""
        return 0 if self._made is None else len(self._made[1].data)

    def takes_long(self) -> bool:
        """True if making it takes longer than a `stat` may."""
        return False

    def unread_ms(self) -> int:
        """Return the time that `stat` says while the text is not made for it."""
        return self._clock.now_ms()

    def directory_access(self) -> Access | None:
        """Return the access to the directory that it is in; None for that to the store."""
        return None

    def hides_size(self, access: Access | None) -> bool:
        """True if users can reach the file who may not read it, where this is the access to it."""
        if self._rights is None or access is None:
            return False
        return self._rights.is_reached_by_more(access, self.directory_access() or self._rights.of_store())

    def open(self) -> Reading:
        """Open the file's present text."""
        made = self.made()
        return BytesReading(made.data) if made.failure is None else _CutReading(made.data, made.failure)

    def access(self) -> Access | None:
        """Return the access to the files that it is made from."""
        return None if self._access is None else self._access()

    @property
    def is_made(self) -> bool:
        """True if the text was generated a moment ago."""
        return self._made is not None and self._clock.elapsed_s() - self._made[0] < _KEPT_S

    def made(self) -> Generated:
        """Return what the file holds; it is generated again unless that was done a moment ago."""
        known = self._made
        if known is None or not self.is_made:
            generated = self.generate()
            known = self._made = (self._clock.elapsed_s(), generated)
        return known[1]


class BytesReading:
    """An open file whose bytes are all there, and do not change. Descriptors with the same bytes share them.

    Raises `MemoryBudgetError` if there is no memory to hold them, and reading raises `GoneError` once it is closed.
    """

    def __init__(self, data: bytes) -> None:
        self._text: Text | None = TEXTS.text(data)
        self._size_bytes = len(data)

    def size_bytes(self) -> int | None:
        """Return how many there are, or were before they were released."""
        return self._size_bytes

    def read(self, position: int, size_bytes: int) -> bytes:
        """The bytes from the position; fewer than asked for only at the end."""
        return self._data[position : position + size_bytes]

    def read_soon(self, position: int, size_bytes: int) -> bytes:
        """Return the same, which never takes long."""
        return self.read(position, size_bytes)

    def close(self) -> None:
        """Release them."""
        self._text = None

    @property
    def _data(self) -> bytes:
        text = self._text
        if text is None:
            raise GoneError("it was closed")
        return text.data


class _CutReading(BytesReading):
    """An open file that ends with an error."""

    def __init__(self, data: bytes, failure: TreeError) -> None:
        super().__init__(data)
        self._failure = failure

    def size_bytes(self) -> None:
        """Unknown, so that readers go on to the error."""

    def read(self, position: int, size_bytes: int) -> bytes:
        """The bytes from the position; at their end, the error."""
        data = super().read(position, size_bytes)
        if not data:
            raise self._failure
        return data
