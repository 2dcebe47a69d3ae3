"""Whose new files below a log directory are, and who may read them: as root says it, and as anybody else does."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

import pytest

from storage.clock import Clock
from storage.config import TopicConfig
from storage.errors import OwnerError, SpecialFileError
from storage.files import Files, replace_file
from storage.files.overlay import OverlayDirectory
from storage.files.ownership import Model, Terms
from storage.log_dir.log_dir import LogDir
from storage.segment.names import FileName, FileSuffix, Kind
from storage.segment.writable_segment import WritableSegment
from storage.store.store import Mode, Store
from storage.testing.memory_files import MemoryFiles

if TYPE_CHECKING:
    from pathlib import Path

BROKER: Final = (1234, 5678)
OTHER: Final = 4321
PARTITION: Final = "/logs/t-0"


def memory(*, uid: int = 0, gid: int = 0) -> MemoryFiles:
    """Give files with a log directory and a partition of the broker's user, as this user has them."""
    files = MemoryFiles()
    files.uid, files.gid = uid, gid
    files.add_root("/logs")
    files.make_directory("/logs")
    files.set_access("/logs", *BROKER, 0o755)
    files.make_directory(PARTITION)
    files.set_access(PARTITION, *BROKER, 0o755)
    return files


def put(files: Files, path: str, mode: int = 0o644, owner: tuple[int, int] = BROKER) -> str:
    files.open_writing(path, create=True).close()
    if isinstance(files, MemoryFiles):
        files.set_access(path, *owner, mode)
    return path


def access(files: Files, path: object) -> tuple[int, int, int]:
    status = files.status(str(path))
    assert status is not None
    return status.uid, status.gid, status.mode


def segment_file(offset: int, kind: Kind, suffix: FileSuffix = FileSuffix.LIVE) -> str:
    return f"{PARTITION}/{FileName(offset, kind, suffix)}"


def made(files: Files, path: str) -> tuple[int, int, int]:
    files.open_writing(path, create=True, exclusive=True).close()
    return access(files, path)


class TestOwners:
    def test_what_root_makes_in_the_store_of_a_user_is_that_users(self) -> None:
        files = memory()
        assert made(files, "/logs/.lock") == (*BROKER, 0o644)
        assert made(files, f"{PARTITION}/{0:020}.log") == (*BROKER, 0o644)
        files.make_directory("/logs/t-1")
        assert access(files, "/logs/t-1") == (*BROKER, 0o755)
        replace_file(files, "/logs/meta.properties", b"x")
        assert access(files, "/logs/meta.properties") == (*BROKER, 0o644)

    def test_what_another_user_makes_is_their_own(self) -> None:
        files = memory(uid=OTHER, gid=OTHER)
        assert made(files, "/logs/.lock") == (OTHER, OTHER, 0o644)
        files.make_directory("/logs/t-1")
        assert access(files, "/logs/t-1") == (OTHER, OTHER, 0o755)

    def test_what_root_makes_in_its_own_store_or_elsewhere_is_its_own(self) -> None:
        files = memory()
        files.set_access("/logs", 0, 5678, 0o755)
        assert made(files, "/logs/.lock") == (0, 0, 0o644)
        files.make_directory("/elsewhere")
        files.set_access("/elsewhere", *BROKER, 0o755)
        assert made(files, "/elsewhere/file") == (0, 0, 0o644)

    def test_a_file_that_is_replaced_keeps_owner_group_and_mode(self) -> None:
        files = memory()
        put(files, "/logs/checkpoint", 0o640, (OTHER, 7))
        replace_file(files, "/logs/checkpoint", b"x")
        assert access(files, "/logs/checkpoint") == (OTHER, 7, 0o640)

    def test_another_user_who_replaces_a_file_opens_it_to_no_other_group(self) -> None:
        files = memory(uid=OTHER, gid=OTHER)
        put(files, "/logs/checkpoint", 0o640)
        replace_file(files, "/logs/checkpoint", b"x")
        assert access(files, "/logs/checkpoint") == (OTHER, OTHER, 0o600)

    def test_what_a_crash_left_beside_a_file_is_not_written_to(self) -> None:
        files = memory()
        left = files.open_reading(put(files, "/logs/checkpoint.tmp", 0o666))
        replace_file(files, "/logs/checkpoint", b"secret")
        assert left.read_at(0, 100) == b""
        assert access(files, "/logs/checkpoint") == (*BROKER, 0o644)

    def test_a_plan_shows_what_would_be(self) -> None:
        files = memory()
        put(files, segment_file(0, Kind.LOG), 0o600)
        files.add_root("/logs")
        path = segment_file(9, Kind.LOG)
        directory, name = files.parent(path)
        overlay = OverlayDirectory(directory)
        overlay.open_writing(name, create=True).close()
        found = overlay.status(name)
        assert found is not None
        assert found.mode == 0o600
        if os.geteuid() == 0:
            assert (found.uid, found.gid) == BROKER
        assert files.status(path) is None


class TestModes:
    @pytest.mark.parametrize("uid", [0, BROKER[0]])
    def test_a_new_segment_is_open_to_those_to_whom_the_one_before_is(self, uid: int) -> None:
        files = memory(uid=uid, gid=BROKER[1] if uid else 0)
        for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            put(files, segment_file(0, kind), 0o644)
            put(files, segment_file(5, kind), 0o600)
        config = TopicConfig.resolve({})
        WritableSegment.create(files.directory(PARTITION), 9, config, now_ms=0).close()
        for kind in (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX):
            assert access(files, segment_file(9, kind)) == (*BROKER, 0o600)

    def test_an_index_without_another_is_no_more_open_than_its_log(self) -> None:
        files = memory()
        put(files, segment_file(0, Kind.LOG), 0o600)
        put(files, segment_file(5, Kind.LOG), 0o640)
        assert made(files, segment_file(0, Kind.OFFSET_INDEX))[2] == 0o600
        assert made(files, segment_file(5, Kind.TIME_INDEX, FileSuffix.CLEANED))[2] == 0o640
        replace_file(files, f"{PARTITION}/{7:020}.snapshot", b"x")
        assert access(files, f"{PARTITION}/{7:020}.snapshot")[2] == 0o640
        replace_file(files, f"{PARTITION}/leader-epoch-checkpoint", b"x")
        assert access(files, f"{PARTITION}/leader-epoch-checkpoint")[2] == 0o640

    def test_an_index_that_is_rebuilt_is_as_open_as_the_old_one(self) -> None:
        files = memory()
        put(files, segment_file(0, Kind.LOG), 0o600)
        put(files, segment_file(0, Kind.OFFSET_INDEX), 0o660)
        assert made(files, segment_file(0, Kind.OFFSET_INDEX, FileSuffix.CLEANED))[2] == 0o660

    def test_what_is_merged_is_open_to_those_who_may_read_all_of_it(self) -> None:
        files = memory()
        put(files, segment_file(0, Kind.LOG), 0o644)
        put(files, segment_file(5, Kind.LOG), 0o640)
        assert made(files, segment_file(0, Kind.LOG, FileSuffix.CLEANED))[2] == 0o640

    def test_a_log_that_begins_again_is_no_more_open_than_the_files_beside_it(self) -> None:
        files = memory()
        put(files, f"{PARTITION}/partition.metadata", 0o600)
        assert made(files, segment_file(0, Kind.LOG))[2] == 0o600

    def test_a_partition_is_as_open_as_the_others_of_its_topic(self) -> None:
        files = memory()
        files.set_access(PARTITION, OTHER, 7, 0o750)
        files.make_directory("/logs/t-1", like=PARTITION)
        assert access(files, "/logs/t-1") == (OTHER, 7, 0o750)
        files.set_access("/logs", *BROKER, 0o700)
        files.make_directory("/logs/u-0")
        assert access(files, "/logs/u-0") == (*BROKER, 0o700)

    def test_a_loss_of_power_changes_no_owner(self) -> None:
        files = memory()
        put(files, "/logs/file", 0o600)
        for path in ("/", "/logs"):
            files.sync_directory(path)
        assert access(files.after_power_loss(0), "/logs/file") == (*BROKER, 0o600)


def owners(store: Path) -> set[tuple[int, int]]:
    return {(path.lstat().st_uid, path.lstat().st_gid) for path in (store, *store.rglob("*"))}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Make a store that belongs to the broker's user."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with Store.create([tmp_path / "logs"], files=Files(), clock=Clock()) as made:
        made.topics.create("t", 1)
    for path in (tmp_path / "logs", *(tmp_path / "logs").rglob("*")):
        os.chown(path, *BROKER)
    return tmp_path / "logs"


class TestRealFiles:
    def test_root_leaves_a_users_store_that_users(self, store: Path) -> None:
        (store / "t-0").chmod(0o2750)
        with Store.open([store], mode=Mode.READ_WRITE, files=Files(), clock=Clock()) as opened:
            opened.topics.create("u", 2)
            opened.topics.add_partition("t")
        assert owners(store) == {BROKER}
        assert stat.S_IMODE((store / "t-1").stat().st_mode) & 0o777 == 0o750

    def test_a_setgid_directory_stays_one_and_gives_its_group(self, store: Path) -> None:
        store.chmod(0o2755)
        files = Files()
        files.add_root(store)
        files.make_directory(store / "u-0")
        assert stat.S_IMODE((store / "u-0").stat().st_mode) == 0o2755

    def test_a_file_that_exists_is_given_to_nobody(self, store: Path) -> None:
        victim = store.parent / "victim"
        victim.touch()
        (store / "t-0" / "new").hardlink_to(victim)
        files = Files()
        files.add_root(store)
        with pytest.raises(SpecialFileError, match="is a hard link to a file of user 0, and kafkafs does not open it"):
            files.open_writing(store / "t-0" / "new", create=True)
        with pytest.raises(SpecialFileError):
            files.lock(store / "t-0" / "new")
        assert victim.stat().st_uid == 0
        (store / "t-0" / "leader-epoch-checkpoint.tmp").hardlink_to(victim)
        replace_file(files, store / "t-0" / "leader-epoch-checkpoint", b"x")
        assert (victim.stat().st_uid, victim.read_bytes()) == (0, b"")

    def test_where_root_may_give_nothing_away_it_is_refused_before_anything_changes(
        self, store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = sorted(store.rglob("*"))
        monkeypatch.setattr(os, "fchown", denied)
        with pytest.raises(OwnerError) as refused:
            LogDir(Files().directory(store)).lock()
        assert refused.value.errno == errno.EPERM
        assert "`setpriv --reuid 1234 --regid 5678 --clear-groups` before it" in str(refused.value)
        files = Files()
        files.add_root(store)
        with pytest.raises(OwnerError):
            files.open_writing(store / "t-0" / "file", create=True)
        with pytest.raises(OwnerError):
            files.make_directory(store / "u-0")
        assert sorted(store.rglob("*")) == before

    def test_an_access_list_goes_on_with_the_file(self, store: Path) -> None:
        log = store / "t-0" / f"{0:020}.log"
        log.touch()
        os.chown(log, *BROKER)
        log.chmod(0o640)
        # Version 2; the user rw-, user 4321 r--, the group ---, the mask r--, others ---.
        entries = [(1, 6, -1), (2, 4, OTHER), (4, 0, -1), (16, 4, -1), (32, 0, -1)]
        packed = (2).to_bytes(4, "little") + b"".join(
            tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + (uid % 2**32).to_bytes(4, "little")
            for tag, bits, uid in entries
        )
        try:
            os.setxattr(log, "system.posix_acl_access", packed)
        except OSError:
            pytest.skip("the file system has no access lists")
        files = Files()
        files.add_root(store)
        new = store / "t-0" / f"{5:020}.log"
        files.open_writing(new, create=True).close()
        assert os.getxattr(new, "system.posix_acl_access") == packed


def denied(*_: int) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_user_who_is_not_root_changes_no_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "fchown", denied)
    with Store.create([tmp_path / "logs"], files=Files(), clock=Clock()) as store:
        store.topics.create("t", 2)
        store.topics.add_partition("t")


@pytest.mark.parametrize(
    ("mode", "making"), [(0o644, 0o644), (0o640, 0o600), (0o604, 0o600), (0o664, 0o644), (0o044, 0o000), (0o600, 0o600)]
)
def test_a_new_file_has_at_once_what_all_users_may_do_and_no_more(tmp_path: Path, mode: int, making: int) -> None:
    """A mount beside the writer takes a file that fewer users may open for a narrowing of the log."""
    model = tmp_path / "model"
    model.touch()
    model.chmod(mode)
    directory = Files().directory(tmp_path)
    assert Terms(mode=mode, model=Model(directory, "model"), gid=os.getgid()).making_mode == making


def test_an_access_list_is_in_place_before_others_may_open_a_new_file(tmp_path: Path) -> None:
    class Listed(Model):
        def access_list(self) -> bytes:
            return b"a list"

    directory = Files().directory(tmp_path)
    assert Terms(mode=0o644, model=Listed(directory, "model"), gid=os.getgid()).making_mode == 0o600
