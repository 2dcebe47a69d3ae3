"""The options of a mount, as mount(8) and fstab pass them: names with commas between them, some with values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kafkafs.mount.errors import MountError
from kafkafs.quantities import size_of
from kafkafs.render.key_values import KeyValueSyntax
from kafkafs.tree.options import Damage, TreeOptions
from kafkafs.tree.store_texts import in_a_line
from storage.budget import LIMIT_BYTES_MIN, MEMORY
from storage.log import Isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

E = TypeVar("E", bound=Enum)


class DurabilityOption(Enum):
    """What a write that has returned survives."""

    BUFFERED = "buffered"  # the death of kafkafs, as in Kafka
    FSYNC = "fsync"  # a loss of power


class Ownership(NamedTuple):
    """Owner and umask of files; None means those of the directory in the store."""

    uid: int | None = None
    gid: int | None = None
    umask: int | None = None


@dataclass(frozen=True, slots=True)
class MountOptions:
    """The options of a mount, with their defaults; None where it depends on the store."""

    is_writable: bool | None = None
    has_maintenance: bool | None = None
    server_properties: Path | None = None
    allows_others: bool = False
    follows_links: bool = False
    unmounts_itself: bool = False
    ownership: Ownership = field(default_factory=Ownership)
    durability: DurabilityOption = DurabilityOption.BUFFERED
    memory_bytes: int | None = None
    tree: TreeOptions = field(default_factory=TreeOptions)

    def effective(self, *, is_maintained: bool) -> dict[str, str]:
        """Return the mount's own effective options by name, without those of the tree and its mode.

        Where uid, gid or umask are not given they are those of the directories in the store.
        """
        uid, gid, umask = self.ownership
        return {
            "durability": self.durability.value,
            "maintenance": "on" if is_maintained else "off",
            "server_properties": "none" if self.server_properties is None else in_a_line(self.server_properties),
            "follow_links": "true" if self.follows_links else "false",
            "allow_other": "true" if self.allows_others else "false",
            "auto_unmount": "true" if self.unmounts_itself else "false",
            "uid": "store" if uid is None else str(uid),
            "gid": "store" if gid is None else str(gid),
            "umask": "store" if umask is None else f"{umask:03o}",
            "memory": str(MEMORY.limit_bytes if self.memory_bytes is None else self.memory_bytes),
        }


ID_MAX: Final = 2**32 - 2
"""The largest id of a user or a group; the one above it means none."""
LIST_LIMIT_MAX: Final = 1_000_000_000
PARTITIONS_MAX: Final = 10_000
"""As many partitions as one mkdir may make: each is a directory, with indexes once it is written to."""
TEXT_BYTES_MAX: Final = 255


IGNORED: Final = frozenset(
    {
        "_netdev",
        "async",
        "atime",
        "auto",
        "defaults",
        "dev",
        "diratime",
        "exec",
        "group",
        "lazytime",
        "loud",
        "noatime",
        "noauto",
        "nodev",
        "nodiratime",
        "noexec",
        "nofail",
        "nolazytime",
        "norelatime",
        "nostrictatime",
        "nosuid",
        "nouser",
        "nousers",
        "owner",
        "quiet",
        "relatime",
        "silent",
        "strictatime",
        "suid",
        "user",
        "users",
    }
)
"""Options of mount(8) and fstab that have no meaning here, or are the kernel's."""

_FLAGS: Final = {
    "ro": "mount for reading only",
    "rw": "mount for writing, also a store that kafkafs did not make",
    "allow_other": "let other users in, as the modes of files allow",
    "auto_unmount": "unmount when the process dies",
    "allow_delete": "let rmdir delete topics",
    "follow_links": "follow links in the place of partitions' directories",
}
_VALUED: Final = {
    "uid": ("N", "the owner of all files; by default as in the store"),
    "gid": ("N", "their group; by default as in the store"),
    "umask": ("OCTAL", "the permissions that files do not have; by default as in the store"),
    "list_limit": ("N", "how many records offset/ lists, 0 for all; 1000"),
    "isolation": ("read_uncommitted|read_committed", "whether aborted records are shown; read_uncommitted"),
    "damage": ("stop|skip", "fail at a batch that cannot be decoded, or leave it out; stop"),
    "durability": ("buffered|fsync", "what a write survives: kafkafs, or a loss of power; buffered"),
    "default_partitions": ("N", "how many partitions mkdir makes; 1"),
    "kv_separator": ("TEXT", "what ends a key in append.kv; a tab"),
    "null_marker": ("TEXT", "what stands for null in append.kv; nothing does"),
    "maintenance": ("on|off", "retention and compaction; on for a store that kafkafs made"),
    "server_properties": ("FILE", "a broker's settings, by its absolute path"),
    "memory": ("BYTES", "the most that decoding may hold, also with K, M or G after it"),
}


def described_options() -> Mapping[str, str]:
    """Return what each option means, and its default, by how it is written with its values."""
    valued = {f"{name}={values}": about for name, (values, about) in _VALUED.items()}
    return {**_FLAGS, **valued}


def parse_options(texts: Iterable[str]) -> MountOptions:
    """The options in texts, later ones winning; raises `MountError` for one that is not known, or has no such value."""
    given: dict[str, str | None] = {}
    for name, value in (_split(item) for text in texts for item in text.split(",") if item.strip()):
        if name in {"ro", "rw"}:
            given.pop("ro", None)
            given.pop("rw", None)
        if name not in IGNORED and not name.startswith(("x-", "comment")):
            _check(name, value)
            given[name] = value
    return MountOptions(
        is_writable=True if "rw" in given else False if "ro" in given else None,
        has_maintenance=_of(given, "maintenance", _switch, None),
        server_properties=_of(given, "server_properties", _absolute, None),
        allows_others="allow_other" in given,
        follows_links="follow_links" in given,
        unmounts_itself="auto_unmount" in given,
        ownership=Ownership(
            _of(given, "uid", _number(0, ID_MAX), None),
            _of(given, "gid", _number(0, ID_MAX), None),
            _of(given, "umask", _octal, None),
        ),
        memory_bytes=_of(given, "memory", _size, None),
        durability=_of(given, "durability", _one_of(DurabilityOption), DurabilityOption.BUFFERED),
        tree=_tree_options(given),
    )


def _tree_options(given: Mapping[str, str | None]) -> TreeOptions:
    standard = TreeOptions()
    return TreeOptions(
        is_shared="allow_other" in given,
        isolation=_of(given, "isolation", _one_of(Isolation), standard.isolation),
        damage=_of(given, "damage", _one_of(Damage), standard.damage),
        list_limit=_of(given, "list_limit", _number(0, LIST_LIMIT_MAX), standard.list_limit),
        default_partitions=_of(given, "default_partitions", _number(1, PARTITIONS_MAX), standard.default_partitions),
        may_delete="allow_delete" in given,
        key_values=KeyValueSyntax(
            separator=_of(given, "kv_separator", _separator, standard.key_values.separator),
            null_marker=_of(given, "null_marker", _marker, standard.key_values.null_marker),
        ),
    )


def _split(item: str) -> tuple[str, str | None]:
    name, equals, value = item.strip().partition("=")
    return name, value if equals else None


def _check(name: str, value: str | None) -> None:
    if name in _FLAGS:
        if value is not None:
            raise MountError(f"the option {name} has no value: write -o {name}")
    elif name not in _VALUED:
        from difflib import get_close_matches

        near = get_close_matches(name, (*_FLAGS, *_VALUED), n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted((*_FLAGS, *_VALUED)))}"
        raise MountError(f"there is no mount option {name}{hint}")
    elif value is None:
        raise MountError(f"the option {name} needs a value: write -o {name}=…")


T = TypeVar("T")
U = TypeVar("U")


def _of(given: Mapping[str, str | None], name: str, parse: Callable[[str], T], otherwise: U) -> T | U:
    text = given.get(name)
    if text is None:
        return otherwise
    try:
        return parse(text)
    except ValueError as error:
        raise MountError(f"the option {name} cannot be {text!r}: {error}") from None


def _number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
        if not is_number or not least <= int(text) <= most:
            raise ValueError(f"it is a number from {least} to {most}")
        return int(text)

    return parse


def _size(text: str) -> int:
    size_bytes = size_of(text)
    if size_bytes is None or size_bytes < LIMIT_BYTES_MIN:
        raise ValueError(
            f"it is a number of bytes, also with K, M or G after it, and at least {LIMIT_BYTES_MIN >> 20}M"
        )
    return size_bytes


def _octal(text: str) -> int:
    if not text or not set(text) <= set("01234567") or len(text) > len("0777") or int(text, 8) > 0o777:
        raise ValueError("it is an octal number up to 777")
    return int(text, 8)


def _switch(text: str) -> bool:
    if text not in {"on", "off"}:
        raise ValueError("it is on or off")
    return text == "on"


def _absolute(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute():  # the serving process is in another directory
        raise ValueError("it is the absolute path of a file")
    return path


def _separator(text: str) -> bytes:
    if not text:
        raise ValueError("it is something, and without a newline")
    return _marker(text)


def _marker(text: str) -> bytes:
    """Check a text that may be in a line of `append.kv`."""
    data = text.encode(errors="surrogateescape")
    if b"\n" in data:
        raise ValueError("it is something, and without a newline")
    if len(data) > TEXT_BYTES_MAX:
        raise ValueError(f"it has at most {TEXT_BYTES_MAX} bytes")
    return data


def _one_of(kind: type[E]) -> Callable[[str], E]:
    def parse(text: str) -> E:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(f"it is {' or '.join(str(member.value) for member in kind)}") from None

    return parse
