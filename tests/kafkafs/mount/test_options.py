"""Options are those of mount(8): the known ones are read, those of fstab passed over, the others refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafs.mount.errors import MountError
from kafkafs.mount.options import Durability, MountOptions, parse_options
from kafkafs.tree.options import Damage
from storage.partition.view import Isolation


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
    assert options.durability is Durability.FSYNC
    tree = options.tree
    assert (tree.list_limit, tree.isolation, tree.damage) == (0, Isolation.COMMITTED, Damage.SKIP)
    assert (tree.default_partitions, tree.may_delete) == (3, True)
    assert (tree.key_values.separator, tree.key_values.null_marker) == (b":", b"NULL")
    assert options.server_properties == Path("/etc/kafka/server.properties")
    assert list(options.given)[-1] == "server_properties"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("alow_other", "did you mean allow_other?"),
        ("zzzz", "there are allow_delete, allow_other"),
        ("uid=me", "it is a number"),
        ("umask=999", "octal"),
        ("uid", "needs a value"),
        ("ro=1", "has no value"),
        ("isolation=none", "it is read_uncommitted or read_committed"),
        ("maintenance=maybe", "it is on or off"),
        ("server_properties=server.properties", "it is the absolute path of a file"),
        ("default_partitions=0", "at least 1"),
        ("kv_separator=", "it is something"),
    ],
)
def test_others_are_refused_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(MountError, match=r".") as refused:
        parse_options([text])
    assert sentence in str(refused.value)
