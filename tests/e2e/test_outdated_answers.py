"""What the kernel was told of files that are cut, removed or opened again is not what readers get for long."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mounts import store_mounting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mounts import Mounted

pytestmark = pytest.mark.e2e

RECORDS = 2000
START = RECORDS - 10
LOOKS_S = 10.0
"""Names of what was removed vanish within a second; a busy machine takes some seconds for that."""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def mounted(tmp_path: Path, store: Path) -> Iterator[Mounted]:
    with store_mounting(tmp_path) as mount:
        mounted = mount(store, "-o", "rw")
        done = mounted.run("mkdir orders && echo segment.bytes=5000 >> orders/config && echo first >> orders/0/append")
        assert (done.returncode, done.stderr) == (0, "")
        yield mounted


@pytest.mark.parametrize("is_kept_open", [False, True])
def test_an_index_that_is_cut_at_a_roll_is_as_small_as_it_is(mounted: Mounted, store: Path, is_kept_open: bool) -> None:
    shown = mounted.path / "orders/0/segments/00000000000000000000.index"
    real = store / "orders-0" / shown.name
    descriptor = os.open(shown, os.O_RDONLY)
    assert os.pread(descriptor, 10, 0) == bytes(10)
    assert os.fstat(descriptor).st_size == 10 << 20
    if not is_kept_open:
        os.close(descriptor)
    assert mounted.run("for i in {1..400}; do echo $i; done >> orders/0/append").returncode == 0
    assert 0 < real.stat().st_size < 1000
    mounted.until(lambda: shown.stat().st_size == real.stat().st_size, seconds=LOOKS_S)
    assert shown.read_bytes() == real.read_bytes()
    if is_kept_open:
        assert os.fstat(descriptor).st_size == real.stat().st_size
        assert os.pread(descriptor, 1 << 20, 0) == real.read_bytes()
        os.close(descriptor)


@pytest.mark.parametrize("name", ["latest", "latest.json", "last-3..", "last-3...jsonl"])
def test_a_file_that_is_opened_again_has_the_bytes_of_its_first_descriptor(mounted: Mounted, name: str) -> None:
    path = mounted.path / "orders/0/offset" / name
    held = path.read_bytes()
    with path.open("rb") as first:
        assert mounted.run("printf '%0200d\\n' 1 2 3 4 >> orders/0/append").returncode == 0
        with Path(f"/proc/self/fd/{first.fileno()}").open("rb") as again:
            assert os.fstat(again.fileno()).st_size == len(held)
            assert again.read() == held
        assert first.read() == held
    assert path.read_bytes() != held


def test_names_that_were_removed_while_they_were_listed_vanish(mounted: Mounted) -> None:
    assert mounted.run(f"for i in {{1..{RECORDS}}}; do echo $i; done >> orders/0/append").returncode == 0
    offsets = mounted.path / "orders/0/offset"
    (offsets / "0").stat()
    with os.scandir(offsets) as listed:
        names = [next(listed).name]
        assert mounted.run(f"echo {START} >> orders/0/log-start-offset").returncode == 0
        mounted.until(lambda: not (offsets / "0").exists())
        names += [entry.name for entry in listed]
    removed = [name for name in names if name.isdigit() and int(name) < START]
    assert len(removed) > RECORDS // 4, "the kernel was told of them before"
    mounted.until(lambda: not any((offsets / name).exists() for name in removed), seconds=LOOKS_S)
