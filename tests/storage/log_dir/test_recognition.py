"""Which directories are taken for log directories, and what is said of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.clock import Clock
from storage.errors import NotAStoreError
from storage.files import Files
from storage.log_dir.checkpoints import OffsetCheckpoint
from storage.log_dir.creation import are_vacant
from storage.log_dir.meta_properties import META_PROPERTIES_NAME
from storage.log_dir.recognition import check_stores
from storage.log_dir.settings_file import SETTINGS_NAME
from storage.store.store import Mode, Store
from storage.store.store_recovery import plan_recovery, recover_store
from storage.verify.verification import Verification

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT = f"{0:020d}.log"


def refuse(*paths: Path) -> str:
    """Check the error of every way of opening, which makes no file."""
    given = {"files": Files(), "clock": Clock()}
    recovering = {**given, "announce": lambda *_: None, "tell": print}
    ways = (
        lambda: Store.open(paths, mode=Mode.READ_ONLY, **given),
        lambda: Store.open(paths, mode=Mode.READ_WRITE, **given),
        lambda: recover_store(paths, **recovering),
        lambda: plan_recovery(paths, **recovering),
        lambda: Verification(Files(), paths),
    )
    before = [sorted(path.rglob("*")) for path in paths]
    said = set()
    for way in ways:
        with pytest.raises(NotAStoreError) as caught:
            way()
        said.add(str(caught.value))
    assert [sorted(path.rglob("*")) for path in paths] == before
    (sentence,) = said
    return sentence


def test_a_directory_that_is_called_like_a_partition_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "polkit-1").mkdir()
    (tmp_path / "polkit-1" / "rules.d").mkdir()
    (tmp_path / "backup-3").mkdir()
    (tmp_path / "backup-3" / "notes.tmp").touch()
    (tmp_path / "backup-3" / "1.log").touch()
    assert refuse(tmp_path) == (
        f"this is no store: there is neither a meta.properties nor a partition with a segment in it ({tmp_path})"
    )


@pytest.mark.parametrize("name", [META_PROPERTIES_NAME, SETTINGS_NAME, *OffsetCheckpoint, f"a-0/{SEGMENT}"])
def test_a_file_of_a_broker_or_of_ours_or_a_segment_makes_a_store(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    check_stores([Files().directory(tmp_path)])


def test_the_file_of_a_store_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES_NAME).mkdir()
    assert "this is no store" in refuse(tmp_path)


def test_a_partition_directory_leads_to_its_store(tmp_path: Path) -> None:
    partition = tmp_path / "store" / "a-0"
    partition.mkdir(parents=True)
    (partition / SEGMENT).touch()
    assert refuse(partition) == (
        f"this is a partition directory, and no store; its store is its parent, {tmp_path / 'store'} ({partition})"
    )


def test_the_parent_of_a_store_leads_to_it(tmp_path: Path) -> None:
    store = tmp_path / "kafka"
    store.mkdir()
    (store / META_PROPERTIES_NAME).touch()
    (tmp_path / "apt").mkdir()
    assert refuse(tmp_path).endswith(f"nor a partition with a segment in it; {store} is one ({tmp_path})")


def test_a_new_disk_beside_others_may_be_empty_and_another_directory_may_not(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("1", "2", "3"))
    for path in (first, second, third):
        path.mkdir()
    (second / "lost+found").mkdir()
    assert refuse(first, second) == (
        f"there is neither a meta.properties nor a partition in it: the directory is empty ({first})"
    )
    (first / META_PROPERTIES_NAME).write_text("version=0\n")
    check_stores([Files().directory(path) for path in (first, second)])
    (third / "hosts").touch()
    assert str(third) in refuse(first, third)


def test_a_store_can_begin_beside_lost_and_found(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert are_vacant([Files().directory(tmp_path)])
    with Store.create([tmp_path], files=Files(), clock=Clock()) as store:
        store.topics.create("t", 1)
    (tmp_path / "lost+found").is_dir()
