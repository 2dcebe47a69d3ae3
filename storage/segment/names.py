"""What the files of a partition directory are called, and what a name says.

A segment's files bear its base offset in twenty digits. A producer snapshot bears the offset up to which it holds.
A second suffix says that a file is on its way: in or out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The suffix of a file, which says what it holds."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    SNAPSHOT = ".snapshot"


class State(StrEnum):
    """The second suffix of a file, which says what becomes of it."""

    LIVE = ""
    DELETED = ".deleted"  # to be removed: nobody needs it any more
    CLEANED = ".cleaned"  # being written, by a cleaning or a split that may not end
    SWAP = ".swap"  # complete, and about to stand in for what it replaces


SEGMENT_KINDS: Final = (Kind.LOG, Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TRANSACTION_INDEX)
"""The files that make up a segment, in the order in which they are renamed."""

_NAME: Final = re.compile(
    rf"(\d{{20}})({'|'.join(re.escape(kind) for kind in Kind)})({'|'.join(re.escape(state) for state in State)})"
)


@dataclass(frozen=True, slots=True)
class FileName:
    """The name of a segment's file, taken apart."""

    offset: int
    kind: Kind
    state: State = State.LIVE

    def __str__(self) -> str:
        return f"{self.offset:020d}{self.kind}{self.state}"

    def becoming(self, state: State) -> FileName:
        """The same file in another state."""
        return FileName(self.offset, self.kind, state)


def parse_name(name: str) -> FileName | None:
    """What the name of a file in a partition directory says; None if it belongs to no segment."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    return FileName(int(match[1]), Kind(match[2]), State(match[3]))
