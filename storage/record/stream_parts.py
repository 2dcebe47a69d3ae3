"""How many members or frames a compressed stream may have, each of which takes time to decompress.

A part may hold nothing: a stream of 60 MB can have millions, and take half a minute for no output. A broker reads
them; producers write one.
"""

from __future__ import annotations

from typing import Final

from storage.errors import DecompressedTooLargeError

PARTS_ALWAYS_ALLOWED: Final = 65_536
PART_OUTPUT_BYTES: Final = 1024


def check_parts(parts: int, produced_bytes: int, name: str) -> None:
    """Raise `DecompressedTooLargeError` once a stream has more parts than its output accounts for."""
    if parts > PARTS_ALWAYS_ALLOWED and (parts - PARTS_ALWAYS_ALLOWED) * PART_OUTPUT_BYTES > produced_bytes:
        raise DecompressedTooLargeError(
            f"the {name} hold too little: {parts} and more are there, and the first {parts} hold {produced_bytes} bytes"
        )
