"""The owner of a file holds a lease on it, which the kernel breaks within a minute."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from typing import TYPE_CHECKING

import pytest

from storage.files import Files
from storage.log_dir.log_dir import LogDir

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEASED = "another process holds a lease on the file, and kafkafs does not wait for it; try again"


@pytest.fixture
def leased(tmp_path: Path) -> Iterator[Path]:
    """Hold a lease on a lock file; the kernel's signal about it does nothing."""
    path = tmp_path / ".lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    yield path
    os.close(descriptor)
    signal.signal(signal.SIGIO, before)


def test_a_lease_on_a_file_is_called_so(leased: Path) -> None:
    directory = Files().add_root(leased.parent)
    for use in (directory.open_reading, directory.open_writing, directory.is_locked):
        with pytest.raises(OSError, match=LEASED) as caught:
            use(leased.name)
        assert (caught.value.errno, caught.value.filename) == (errno.EBUSY, str(leased))


def test_a_lease_on_the_lock_is_no_broker(leased: Path) -> None:
    with pytest.raises(OSError, match=LEASED) as caught:
        LogDir(Files().add_root(leased.parent)).lock()
    assert caught.value.filename == str(leased)
