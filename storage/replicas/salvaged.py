"""What the account that salvage has left beside a partition's directory says of the log in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from storage.errors import CorruptMetadataError
from storage.files import SNAPSHOT_BYTES_MAX
from storage.replicas.order import LostOffsets
from storage.verify.finding import FindingKind

if TYPE_CHECKING:
    from storage.files import Directory

ACCOUNT_SUFFIX: Final = ".salvage.json"
"""What follows the name of the directory in that of the account."""


class Salvaged(NamedTuple):
    """What an account says of the log that it lies beside.

    `lost` are the offsets that salvage could not save. A log that `is_compacted` lacks others that it never had to.
    """

    lost: tuple[LostOffsets, ...]
    is_compacted: bool


def read_account(directory: Directory, name: str) -> Salvaged | None:
    """Read the account beside the partition's directory of this name; return None if there is none.

    The torn batch that a broker leaves when it dies counts as no loss. Raises `CorruptMetadataError` if the file is not
    what salvage writes, and `OSError`.
    """
    try:
        data = directory.read_small(f"{name}{ACCOUNT_SUFFIX}", CorruptMetadataError, SNAPSHOT_BYTES_MAX)
    except FileNotFoundError:
        return None
    try:
        found: Any = json.loads(data)
        lost = [LostOffsets(int(each["offset"]), each["endOffset"]) for each in found["lost"]]
        is_torn = bool(found["damage"]) and found["damage"][-1]["kind"] == FindingKind.TORN_TAIL
        known = tuple(each for each in lost if each.end is not None or not is_torn)
        return Salvaged(known, found.get("isCompacted") is True)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        path = directory.path_of(f"{name}{ACCOUNT_SUFFIX}")
        raise CorruptMetadataError("this is no account that kafkafs salvage writes", path=path) from None
