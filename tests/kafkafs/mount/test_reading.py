"""What is read through a mount is what the nodes of its tree hold, whichever tool reads."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from mounts import Mounted

VALUES = "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("cat orders/0/offset/1", "two"),
        ("cat orders/0/offset/0 orders/0/offset/2", "onethree"),
        ("cat orders/0/values", VALUES),
        ("cat orders/0/offset/all", VALUES),
        ("cat orders/0/records.jsonl", VALUES),  # whose size is unknown
        ("cat orders/0/by-time/now", "two"),
        ("readlink orders/0/by-time/now", "../offset/1\n"),
        ("head -n 1 orders/0/values", "one\n"),
        ("tail -n 1 orders/0/values", "three\n"),
        ("tail -c +5 orders/0/values", "two\nthree\n"),
        ("grep -c t orders/0/values", "2\n"),
        ("wc -c < orders/0/values", "14\n"),
        ("dd if=orders/0/values bs=4 skip=1 count=1 status=none", "two\n"),
        ("sort orders/0/values", "one\nthree\ntwo\n"),
        ("stat -c '%s %F %h' orders/0/values orders/0", "14 regular file 1\n0 directory 1\n"),
        ("stat -c %s orders/0/records.jsonl", "0\n"),
        ("stat -c %.Y orders/0/offset/1", "1700000000.123000000\n"),
        ("cp orders/0/values $OUT && cat $OUT", VALUES),
        ("cp orders/0/offset/all $OUT && cat $OUT", VALUES),
        ("ls orders/0/offset", "0\n1\n2\n"),
        ("ls orders/1/offset | wc -l", "2000\n"),
        ("find orders/1/offset -type f -name 19?? | wc -l", "100\n"),
        ("ls -a orders", ".\n..\n0\n1\n2\nconfig\n"),
        ("python3 -c 'print(open(\"orders/0/values\").readlines())'", "['one\\n', 'two\\n', 'three\\n']\n"),
        ("test -e orders/0/offset/3 || echo none", "none\n"),
        ("test -e orders/0/nonsense || echo none", "none\n"),
    ],
)
def test_tools_read_what_is_there(shared_mount: Mounted, script: str, output: str) -> None:
    done = shared_mount.run(f"OUT=$(mktemp); {script}")
    assert (done.stdout, done.stderr) == (output, "")


def test_a_record_has_its_attributes(mounted: Mounted) -> None:
    record = mounted.path / "orders/0/offset/1"
    assert os.listxattr(record) == ["user.kafka.key"]
    assert os.getxattr(record, "user.kafka.key") == b"k1"
    with pytest.raises(OSError, match="No data") as absent:
        os.getxattr(record, "user.kafka.other")
    assert absent.value.errno == errno.ENODATA
    for space in ("security.selinux", "system.posix_acl_access"):
        with pytest.raises(OSError, match="not supported") as unknown:
            os.getxattr(record, space)
        assert unknown.value.errno == errno.EOPNOTSUPP


def test_numbers_are_the_same_wherever_they_are_shown(mounted: Mounted) -> None:
    offsets = mounted.path / "orders/1/offset"
    listed = {entry.name: entry.inode() for entry in os.scandir(offsets)}
    assert len(set(listed.values())) == len(listed)
    assert all(0 < number < 2**63 for number in listed.values())
    assert {name: (offsets / name).stat().st_ino for name in ("0", "17", "1999")}.items() <= listed.items()
    directories = [path for path in mounted.path.glob("*/*/*") if path.is_dir()]
    assert len({path.stat().st_ino for path in directories}) == len(directories)


def test_what_is_momentary_keeps_its_number_though_each_open_is_its_own(mounted: Mounted) -> None:
    info = mounted.path / "orders/0/info"
    number = info.stat().st_ino
    with info.open() as first:
        mounted.run("echo four >> orders/0/append")
        with info.open() as second:
            assert os.fstat(first.fileno()).st_ino == os.fstat(second.fileno()).st_ino == number
            assert (first.read(), second.read()) == ("records=3\nsyncs=0\n", "records=4\nsyncs=0\n")


def test_a_text_is_generated_once_for_a_lookup_and_the_descriptor_after_it(mounted: Mounted) -> None:
    """The kernel asks for the attributes of an open file at each read, and a text may take going through all logs."""
    shown = [int(mounted.run("cat orders/0/leader-epochs").stdout) for _ in range(3)]
    assert shown[0] == 1
    assert shown[2] <= 5, "a name that is known is looked up twice: once to see that the known file is outdated"
    with (mounted.path / "orders/0/leader-epochs").open("rb", buffering=0) as file:
        size, number = os.fstat(file.fileno()).st_size, os.pread(file.fileno(), 9, 0)
        assert size == len(number)
        assert [os.pread(file.fileno(), 9, 0) for _ in range(3)] == [number] * 3
        assert int(number) <= shown[2] + 2
        assert os.fstat(file.fileno()).st_mtime_ns == 1_700_000_000_123_000_000


def test_owner_and_mode_follow_the_directory(mounted: Mounted) -> None:
    found = (mounted.path / "orders/0/values").stat()
    assert stat.S_IMODE(found.st_mode) == 0o444
    assert stat.S_IMODE((mounted.path / "orders/0/append").stat().st_mode) == 0o644
    assert found.st_uid == os.getuid()


def test_owner_and_mode_can_be_chosen(mounting: Callable[..., Mounted]) -> None:
    mounted = mounting("uid=12,gid=34", "umask=027")
    found = (mounted.path / "orders/0/append").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12, 34, 0o640)
    assert stat.S_IMODE((mounted.path / "orders/0").stat().st_mode) == 0o750


def test_growth_shows_in_what_is_open_and_in_what_is_opened(mounted: Mounted) -> None:
    with mounted.started("tail -n +1 -f orders/0/values") as tail:
        assert tail.stdout is not None
        assert [tail.stdout.readline() for _ in range(3)] == ["one\n", "two\n", "three\n"]
        mounted.run("echo four >> orders/0/append")
        assert tail.stdout.readline() == "four\n"
    assert mounted.run("echo five >> orders/0/append; cat orders/0/values; stat -c %s orders/0/values").stdout == (
        f"{VALUES}four\nfive\n24\n"
    )


def test_what_is_deleted_is_gone_within_a_second(mounted: Mounted) -> None:
    record = mounted.path / "orders/0/offset/1"
    assert record.read_text() == "two"
    mounted.run("echo 2 > orders/0/log-start-offset")
    mounted.until(lambda: not record.exists(), seconds=1)
    assert (mounted.path / "orders/0/offset/2").read_text() == "three"
    mounted.run("rmdir orders")
    mounted.until(lambda: not (mounted.path / "orders").exists(), seconds=1)


def test_what_takes_the_place_of_another_is_another_file(mounted: Mounted) -> None:
    before = (mounted.path / "orders/0").stat().st_ino
    record = mounted.path / "orders/0/offset/0"
    assert record.read_text() == "one"
    assert mounted.run("rmdir orders && mkdir orders && echo other >> orders/0/append").stderr == ""
    mounted.until(lambda: record.read_text() == "other", seconds=1)
    assert (mounted.path / "orders/0").stat().st_ino != before


def test_a_long_read_delays_no_other_request(mounted: Mounted) -> None:
    with mounted.started("cat orders/0/transactions") as stuck:
        assert mounted.run("for i in {1..20}; do cat orders/0/offset/0; done").stdout == "one" * 20
        assert stuck.poll() is None


def test_df_is_that_of_the_store(mounted: Mounted) -> None:
    found, expected = os.statvfs(mounted.path), os.statvfs(mounted.path.parent)
    assert (found.f_blocks, found.f_frsize, found.f_namemax) == (expected.f_blocks, expected.f_frsize, 255)
