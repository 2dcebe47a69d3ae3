"""The options of the tree: those of a mount that are about contents."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkafs.damage import Damage
from kafkafs.render.key_values import KeyValueSyntax
from storage.log import Isolation

__all__ = ["Damage", "TreeOptions"]


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """The options, with their defaults."""

    isolation: Isolation = Isolation.UNCOMMITTED
    damage: Damage = Damage.STOP
    list_limit: int = 1000  # records that `offset/` lists, 0 for all
    default_partitions: int = 1
    may_delete: bool = False
    key_values: KeyValueSyntax = field(default_factory=KeyValueSyntax)  # of append.kv
    is_shared: bool = False  # with users other than the one who mounts
    counted_bytes_max: int = 64 * 1024 * 1024  # of log, that `stat` decodes at once to tell a size
