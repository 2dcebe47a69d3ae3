"""Options are those of mount(8): the known ones are read, those of fstab passed over, the others refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafs.mount.errors import MountError
from kafkafs.mount.options import _FLAGS, _VALUED, DurabilityOption, MountOptions, parse_options
from kafkafs.tree.options import Damage
from storage.budget import MEMORY
from storage.log.view import Isolation


def test_nothing_is_the_default() -> None:
    assert parse_options([]) == MountOptions()
    assert parse_options(["defaults,noauto,nofail,_netdev,x-systemd.automount,noatime", "user"]) == MountOptions()


def test_each_is_read() -> None:
    options = parse_options(
        [
            "ro,uid=1,gid=2,umask=027,allow_other,auto_unmount",
            "list_limit=0,isolation=read_committed,damage=skip,rw",
            "durability=fsync,default_partitions=3,allow_delete,kv_separator=:,null_marker=NULL,maintenance=off",
            "server_properties=/etc/kafka/server.properties",
        ]
    )
    assert (options.is_writable, options.has_maintenance) == (True, False)
    assert options.allows_others
    assert options.unmounts_itself
    assert options.ownership == (1, 2, 0o027)
    assert options.durability is DurabilityOption.FSYNC
    tree = options.tree
    assert (tree.list_limit, tree.isolation, tree.damage) == (0, Isolation.COMMITTED, Damage.SKIP)
    assert (tree.default_partitions, tree.may_delete) == (3, True)
    assert (tree.key_values.separator, tree.key_values.null_marker) == (b":", b"NULL")
    assert options.server_properties == Path("/etc/kafka/server.properties")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("alow_other", "did you mean allow_other?"),
        ("zzzz", "there are allow_delete, allow_other"),
        ("uid=me", "it is a number from 0 to 4294967294"),
        ("uid=", "it is a number from 0 to 4294967294"),
        ("uid=-1", "it is a number from 0 to 4294967294"),
        ("uid=99999999999", "it is a number from 0 to 4294967294"),
        ("uid=4294967295", "it is a number from 0 to 4294967294"),
        ("gid=4294967295", "it is a number from 0 to 4294967294"),
        ("gid=1e3", "it is a number from 0 to 4294967294"),
        ("umask=1000", "it is an octal number up to 777"),
        ("umask=", "it is an octal number up to 777"),
        ("list_limit=1000000001", "it is a number from 0 to 1000000000"),
        ("list_limit=" + "9" * 5000, "it is a number from 0 to 1000000000"),
        ("default_partitions=10000000", "it is a number from 1 to 10000"),
        ("durability=never", "it is buffered or fsync"),
        ("damage=mend", "it is stop or skip"),
        ("kv_separator=" + "x" * 256, "it has at most 255 bytes"),
        ("null_marker=" + "x" * 256, "it has at most 255 bytes"),
        ("null_marker=a\nb", "without a newline"),
        ("allow_other=yes", "has no value"),
        ("allow_delete=1", "has no value"),
        ("umask=999", "octal"),
        ("uid", "needs a value"),
        ("ro=1", "has no value"),
        ("isolation=none", "it is read_uncommitted or read_committed"),
        ("maintenance=maybe", "it is on or off"),
        ("server_properties=server.properties", "it is the absolute path of a file"),
        ("memory=63M", "at least 64M"),
        ("memory=1T", "it is a number of bytes"),
        ("memory=", "it is a number of bytes"),
        ("default_partitions=0", "it is a number from 1 to 10000"),
        ("kv_separator=", "it is something"),
    ],
)
def test_others_are_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(MountError, match=r".") as refused:
        parse_options([text])
    assert sentence in str(refused.value)


def test_the_ends_of_every_range_are_taken() -> None:
    least = parse_options(["uid=0,gid=0,umask=0,list_limit=0,default_partitions=1,null_marker=,kv_separator=x"])
    assert (least.ownership, least.tree.list_limit, least.tree.default_partitions) == ((0, 0, 0), 0, 1)
    assert least.tree.key_values.null_marker == b""
    most = parse_options(
        ["uid=4294967294,gid=4294967294,umask=0777,list_limit=1000000000,default_partitions=10000", f"null_marker={X}"]
    )
    assert most.ownership == (4294967294, 4294967294, 0o777)
    assert (most.tree.list_limit, most.tree.default_partitions) == (1_000_000_000, 10_000)


X = "x" * 255


def test_what_holds_is_told_of_every_option() -> None:
    """Those of the tree are told by the tree, and `ro` and `rw` by the mode."""
    told = parse_options([]).effective(is_maintained=True)
    assert told == {
        "durability": "buffered",
        "maintenance": "on",
        "server_properties": "none",
        "follow_links": "false",
        "allow_other": "false",
        "auto_unmount": "false",
        "uid": "store",
        "gid": "store",
        "umask": "store",
        "memory": str(MEMORY.limit_bytes),
    }
    told = parse_options(
        ["uid=1,gid=2,umask=27,allow_other,follow_links,auto_unmount,durability=fsync,server_properties=/a,memory=1G"]
    )
    assert told.effective(is_maintained=False) == {
        "durability": "fsync",
        "maintenance": "off",
        "server_properties": "/a",
        "follow_links": "true",
        "allow_other": "true",
        "auto_unmount": "true",
        "uid": "1",
        "gid": "2",
        "umask": "027",
        "memory": str(2**30),
    }
    of_the_tree = {"isolation", "damage", "list_limit", "default_partitions", "allow_delete", "kv_separator"}
    assert {*_FLAGS, *_VALUED} == {*told.effective(is_maintained=False), *of_the_tree, "null_marker", "ro", "rw"}


def test_an_effective_path_stays_one_line() -> None:
    options = parse_options(["server_properties=/a\nb"])
    assert options.effective(is_maintained=False)["server_properties"] == r"/a\nb"


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("64M", 2**26), ("2g", 2**31), ("100000K", 102_400_000), ("99999999", 99_999_999)]
)
def test_memory_is_a_number_of_bytes(text: str, size_bytes: int) -> None:
    assert parse_options([f"memory={text}"]).memory_bytes == size_bytes
