"""Texts that open files show, each once in memory for all descriptors that show the same bytes."""

from __future__ import annotations

from hashlib import blake2b
from threading import RLock
from typing import TYPE_CHECKING, Final
from weakref import ReferenceType, WeakValueDictionary, ref

from kafkafs.content.descriptor_memory import HELD, LITTLE_BYTES
from storage.budget import MEMORY

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kafkafs.content.descriptor_memory import HeldMemory
    from storage.budget import Budget

_DESCRIPTOR_BYTES: Final = 1024
"""What a descriptor takes besides."""


class Text:
    """The bytes of a text, which are held for as long as a descriptor has this."""

    __slots__ = ("__weakref__", "_held", "data")

    def __init__(self, data: bytes, memory: HeldMemory) -> None:
        self.data = data
        self._held = memory.hold(len(data) + _DESCRIPTOR_BYTES, f"the {len(data)} bytes of this text")


class SharedTexts:
    """The texts that are open. Any thread may use this."""

    def __init__(self, memory: HeldMemory = HELD) -> None:
        self._memory = memory
        self._lock = RLock()  # a text may be collected while its thread is in here
        self._texts: WeakValueDictionary[bytes, Text] = WeakValueDictionary()

    def text(self, data: bytes) -> Text:
        """Return the text with these bytes; raises `MemoryBudgetError` if there is no memory to hold them."""
        if len(data) <= LITTLE_BYTES:
            return Text(data, self._memory)
        key = blake2b(data).digest()  # not under Python's lock
        with self._lock:
            known = self._texts.get(key)
        if known is None:
            made = Text(data, self._memory)
            with self._lock:
                known = self._texts.setdefault(key, made)
        return known


class LastTexts:
    """The text of each name that was made last, with its version. Any thread may use this.

    One is kept until others need its memory, and the others for as long as a descriptor has them.
    """

    def __init__(self, texts: SharedTexts | None = None, *, budget: Budget = MEMORY) -> None:
        self._texts = TEXTS if texts is None else texts
        self._known: dict[str, tuple[Hashable, ReferenceType[Text]]] = {}
        self._last: Text | None = None
        self._account = budget.account(self._drop)

    def get(self, name: str, version: Hashable) -> Text | None:
        """Return the text of this version, if it is there. Another version is kept no longer."""
        known = self._known.get(name)
        text = None if known is None else known[1]()
        if known is not None and known[0] != version and self._last is text:
            self._drop()
        return text if known is not None and known[0] == version else None

    def put(self, name: str, version: Hashable, data: bytes) -> Text:
        """Return the text with these bytes, and keep it; raises `MemoryBudgetError` as `SharedTexts` does."""
        text = self._texts.text(data)
        self._known[name] = (version, ref(text))
        self._last = text
        return text

    def _drop(self, _: int = 0) -> None:
        self._last = None


TEXTS: Final = SharedTexts()
"""Those of this process."""
