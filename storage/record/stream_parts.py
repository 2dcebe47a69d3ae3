"""How many members or frames a compressed stream may have, each of which takes time to decompress.

A part may hold nothing: a stream of 60 MB can have millions, and take half a minute for no output. Each takes a call
of a library that gives Python's lock away and takes it at once, which other threads cannot. A broker reads such
streams; producers write one part.
"""

from __future__ import annotations

from typing import Final

from storage.errors import DecompressedTooLargeError

PARTS_ALWAYS_ALLOWED: Final = 4096
PART_OUTPUT_BYTES: Final = 8192


def check_parts(parts: int, produced_bytes: int, name: str) -> None:
    """Raise `DecompressedTooLargeError` once a stream has more parts than its output accounts for."""
    if parts > PARTS_ALWAYS_ALLOWED and (parts - PARTS_ALWAYS_ALLOWED) * PART_OUTPUT_BYTES > produced_bytes:
        raise DecompressedTooLargeError(
            f"the {name} hold too little: {parts} and more are there, and the first {parts} hold {produced_bytes} bytes"
        )
