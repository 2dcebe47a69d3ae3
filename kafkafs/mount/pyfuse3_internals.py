"""Everything that kafkafs uses of pyfuse3's internals, for known versions only.

- `EntryAttributes.fuse_param.ino`, what the kernel calls an inode by. The setter of `st_ino` sets both as one; it is
  set alone by its place in the object.
- The module's global `trio`, by which its workers wait for requests. `pyfuse3.asyncio` replaces it in the same way.
- `_session_loop(nursery, min_tasks, max_tasks)` starts its like in the nursery that `trio.open_nursery` gives, ends
  with an `OSError` of EAGAIN if there is nothing to read after all, and waits in `trio.Lock` around `wait_readable`.
- `init` encodes each option by the option's own `encode`, and asks for ASCII, which not every path is.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyfuse3

from kafkafs.mount.errors import MountError

if TYPE_CHECKING:
    from collections.abc import Iterator

KNOWN: Final = ((3, 4), (3, 5))
"""The versions of pyfuse3 whose insides were read; `pyproject.toml` requires one of them."""
REQUIREMENT: Final = "pyfuse3>=3.4,<3.6"

_MARK: Final = 0x1122334455667788
_ENTRY_BYTES_MAX: Final = 64  # from the object's beginning on, the place is among them


class OptionText(str):
    """An option for `pyfuse3.init` that reaches libfuse as the bytes of the paths in it, also if they are no ASCII."""

    __slots__ = ()

    def encode(self, encoding: str = "", errors: str = "") -> bytes:  # noqa: ARG002
        """The bytes as the file system has them; the encoding that pyfuse3 asks for is not used."""
        return os.fsencode(str(self))


def check_pyfuse3(version: str = pyfuse3.__version__) -> None:
    """Raise `MountError` unless this pyfuse3 is a known version with the expected internals."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) not in KNOWN:
        known = " and ".join(f"{major}.{minor}" for major, minor in KNOWN)
        raise MountError(
            f"pyfuse3 {version} is installed, but kafkafs works with {known} of it: run `pip install '{REQUIREMENT}'`"
        )
    if _KEY_POSITION is None or "trio" not in vars(pyfuse3):
        raise MountError(
            f"pyfuse3 {version} was built in a way that kafkafs does not know: "
            f"run `pip install --force-reinstall --no-binary pyfuse3 '{REQUIREMENT}'`"
        )


def set_key(entry: pyfuse3.EntryAttributes, key: int) -> None:
    """Give the kernel another key than its `st_ino`; with 0 the kernel learns only the name."""
    assert _KEY_POSITION is not None, "check_pyfuse3 has seen to it"
    ctypes.c_uint64.from_address(id(entry) + _KEY_POSITION).value = key


@contextmanager
def waiting_by(stand_in: object) -> Iterator[None]:
    """Make pyfuse3 wait for requests by this, in place of trio, in the block."""
    module = vars(pyfuse3)
    trio = module["trio"]
    module["trio"] = stand_in
    try:
        yield
    finally:
        module["trio"] = trio


def _key_position() -> int | None:
    """Return where the key is in the object; None if it is not found."""
    probe = pyfuse3.EntryAttributes()
    probe.st_ino = _MARK
    position = ctypes.string_at(id(probe), _ENTRY_BYTES_MAX).find(_MARK.to_bytes(8, sys.byteorder))
    return None if position < 0 else position


_KEY_POSITION: Final = _key_position()
