"""What the whole test suite shares."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable

TESTS = Path(__file__).parent


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpack a data set of tests/data by its name, such as `kafka-3.9`, and return the directory that holds it.

    It is unpacked once and kept in the checkout's cache, where parallel runs share it, so nobody may change it.
    """

    def unpack(name: str) -> Path:
        archive = TESTS / "data" / f"{name}.tar.zst"
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
        cache = TESTS.parent / ".cache" / "datasets"
        try:
            cache.mkdir(parents=True, exist_ok=True)
            (cache / "lock").touch()
        except OSError:
            cache = tmp_path_factory.getbasetemp() / "datasets"
            cache.mkdir(exist_ok=True)
        target = cache / f"{name}-{digest}"
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                _unpack_whole(archive, target)
        return target

    return unpack


def _unpack_whole(archive: Path, target: Path) -> None:
    """Make `target` appear with all its contents or not at all."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with (
        archive.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        tar.extractall(partial, filter="data")
    partial.rename(target)
