"""What a task has to see of a store before its answer counts: at least what the driver saw."""

from __future__ import annotations

import pickle
import shutil
import socket
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

import pytest
from object_stores import BUCKET

from kafkafs.spark.errors import DataLossError, SeenLessError
from kafkafs.spark.sight import SeenLog, Sight, Sights, explained, seen_by_listing, sight_of_log_dirs
from storage.clock import Clock
from storage.errors import RecordsCutOffError, RecordsGoneError, StorageError
from storage.files import Files
from storage.files.object_store import object_store
from storage.files.uris import parse_object_path
from storage.log_dir.checkpoints import OffsetCheckpoint, write_offsets
from storage.record.encoding import batches_of_rows
from storage.store.store import Mode, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from object_stores import S3Server

PARTITION = ("orders", 0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Make a store of ten segments or more, which a broker goes on writing."""
    made = Store.create([tmp_path / "store"], files=Files(), clock=Clock())
    made.topics.create("orders", 1, {"segment.bytes": "512"})
    append(made, 60)
    yield made
    with suppress(StorageError, OSError):  # a test may have removed all of it
        made.close()


def append(store: Store, count: int) -> None:
    for _ in range(count):
        (batch,) = batches_of_rows([(1, b"key", b"value", ())])
        store.log(*PARTITION).append_as_leader(batch, leader_epoch=0)


def directory(store: Store) -> Path:
    return store.log_dirs[0].path / "orders-0"


def logs(store: Store) -> list[Path]:
    return sorted(directory(store).glob("*.log"))


def sight(store: Store) -> Sight:
    """Return the sight of all logs, as a task gets it."""
    with Store.open([store.log_dirs[0].path], mode=Mode.READ_ONLY, files=Files(), clock=Clock()) as opened:
        return pickle.loads(pickle.dumps(Sights(opened).of_logs([PARTITION])))


def retire(store: Store, *, keep: int) -> int:
    log = store.log(*PARTITION)
    names = log.remove_before(log.view.segments[-keep].base_offset)
    for name in names:
        log.directory.remove(name)
    return sum(".log" in name for name in names)


def forget(store: Store) -> None:
    shutil.rmtree(store.log_dirs[0].path)


def unmount(store: Store) -> None:
    forget(store)
    store.log_dirs[0].path.mkdir()


def replace(store: Store) -> None:
    path = store.log_dirs[0].path
    path.rename(path.with_name("elsewhere"))
    Store.create([path], files=Files(), clock=Clock()).close()


def replace_topic(store: Store) -> None:
    path = store.log_dirs[0].path
    for doomed in store.topics.delete("orders"):
        shutil.rmtree(doomed.path)
    store.topics.create("orders", 1)
    assert (path / "orders-0").exists()


def cut(number: int) -> Callable[[Store], None]:
    def cut_file(store: Store) -> None:
        path = logs(store)[number]
        path.write_bytes(path.read_bytes()[:-1])

    return cut_file


@pytest.mark.parametrize(
    ("change", "lack"),
    [
        (forget, "{store} is not there"),
        (unmount, "{store} has no meta.properties"),
        (replace, "{store} is of another broker, as its meta.properties says"),
        (lambda store: shutil.rmtree(directory(store)), "{store}/orders-0 is not there"),
        (replace_topic, "{store}/orders-0 is of another topic of that name"),
        (lambda store: logs(store)[4].unlink(), "{log} is not there"),
        (lambda store: [log.unlink() for log in logs(store)[4:]], "{log} is not there"),
        (lambda store: [log.unlink() for log in logs(store)], "{first} is not there"),
        (cut(4), "{log} has {less} bytes, and had {bytes}"),
        (cut(-1), "{last} has "),
    ],
)
def test_a_task_that_sees_less_names_its_host_and_the_path(
    store: Store, change: Callable[[Store], None], lack: str
) -> None:
    found, seen = logs(store), sight(store)
    by_listing = Sight(seen.log_dirs, (seen_by_listing(store.topics.directory(*PARTITION), is_compacted=False),))
    size_bytes = found[4].stat().st_size
    said = lack.format(
        store=store.log_dirs[0].path,
        log=found[4],
        first=found[0],
        last=found[-1],
        bytes=size_bytes,
        less=size_bytes - 1,
    )
    change(store)
    for each in (seen, by_listing):
        with pytest.raises(SeenLessError) as raised:
            each.check()
        assert str(raised.value).startswith(
            f"{socket.gethostname()} sees less of the store than the driver saw: {said}"
        )


def test_a_disk_that_only_the_driver_lacks_is_found_too(store: Store, tmp_path: Path) -> None:
    empty = tmp_path / "disk"
    empty.mkdir()
    seen = sight_of_log_dirs([str(store.log_dirs[0].path), str(empty)])
    assert seen.check() == {}
    shutil.copy(store.log_dirs[0].path / "meta.properties", empty)
    with pytest.raises(SeenLessError, match=f"{empty} has a meta.properties, which the driver did not find"):
        seen.check()


def test_a_log_that_lives_may_grow_and_drop_what_is_before_its_start(store: Store) -> None:
    seen = sight(store)
    append(store, 60)
    assert seen.check() == {}
    dropped = retire(store, keep=15)
    assert dropped > 3
    assert seen.check() == {str(directory(store)): dropped}
    retire(store, keep=1)
    assert seen.check() == {str(directory(store)): len(seen.logs[0].segments)}


def test_a_task_that_has_just_listed_an_object_store_sees_what_the_driver_listed_since(
    store: Store, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker goes from one batch of a stream to the next within the second for which a listing counts."""
    uri = s3.put(store.log_dirs[0].path)
    place = parse_object_path(uri)
    assert place is not None
    now_s = monotonic()
    monkeypatch.setattr(object_store(place), "now_s", lambda: now_s)  # within that second
    before = Files().partition(f"{uri}/orders-0").statuses()
    append(store, 60)
    for path in directory(store).iterdir():
        s3.client.upload_file(str(path), BUCKET, s3.key(uri, f"orders-0/{path.name}"))
    sizes = tuple((int(path.stem), path.stat().st_size) for path in logs(store))
    seen = Sight(logs=(SeenLog(f"{uri}/orders-0", None, False, sizes),))
    assert seen.check() == {}
    assert Files().partition(f"{uri}/orders-0").statuses() != before


@pytest.mark.parametrize("is_known", [True, False])
def test_a_log_that_is_compacted_may_lack_segments(store: Store, *, is_known: bool) -> None:
    """The driver knows of it by the topic's settings; if it does not, the cleaner's checkpoint says so afterwards."""
    if is_known:
        store.topics.change_config("orders", {"cleanup.policy": "compact"})
    seen = sight(store)
    logs(store)[4].unlink()
    if not is_known:
        write_offsets(store.log_dirs[0].directory, OffsetCheckpoint.FIRST_DIRTY, {PARTITION: 40})
    cut(2)(store)
    assert seen.check() == {str(directory(store)): 1}


def test_what_vanishes_during_the_work_is_named_too(store: Store) -> None:
    seen = sight(store)
    with pytest.raises(SeenLessError, match="is not there"), seen.agreed():
        forget(store)
    with pytest.raises(SeenLessError, match="is not there"), seen.agreed():
        raise AssertionError("no work is begun")


def test_an_error_of_files_is_explained_by_what_is_not_seen(store: Store) -> None:
    seen = sight(store)
    with pytest.raises(OSError, match="of the disk"), seen.agreed():
        raise OSError("of the disk")

    def lose() -> None:
        shutil.rmtree(directory(store))
        raise DataLossError("records are gone")

    with pytest.raises(SeenLessError, match="is not there"), seen.agreed():
        lose()


def test_only_the_start_of_a_log_explains_a_loss(store: Store) -> None:
    told: list[RecordsGoneError] = []
    report = explained(told.append)
    retired = RecordsGoneError("the log begins at 5", path=directory(store))
    report(retired)
    assert told == [retired]
    with pytest.raises(SeenLessError, match=r"sees less .*: the log ends at 5"):
        report(RecordsCutOffError("the log ends at 5", path=directory(store)))


def test_a_query_whose_store_is_unmounted_says_so(store: Store) -> None:
    """Without the check, all topics would seem to be deleted, which failOnDataLoss=false accepts."""
    from kafkafs.spark.bounds import Edge
    from kafkafs.spark.opened_store import OpenedStore
    from kafkafs.spark.options import StoreOptions

    path = store.log_dirs[0].path
    opened = OpenedStore(StoreOptions.parse({"path": str(path), "failOnDataLoss": "false"}, Edge.EARLIEST))
    assert opened.partitions(must_exist=False) == {PARTITION}
    unmount(store)
    with pytest.raises(SeenLessError, match=f"{path} has no meta.properties"):
        opened.partitions(must_exist=False)
    opened.close()
