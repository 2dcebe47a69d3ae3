"""File names for ids that may be any bytes, such as those of consumer groups.

ASCII letters, digits, `.`, `_` and `-` stay as they are, and every other byte is `%` and two capital hex digits; `.`
and `..` are `%2E` and `%2E%2E`, and the empty id is `%`. Where that would be longer than a file name can be, it is
`%sha256-` and the hash of the id, which then is told in the file. No two ids have one name, and no id has two names.
"""

from __future__ import annotations

import re
from typing import Final

from kafkafs.locator.errors import BadNameError

NAME_BYTES_MAX: Final = 255

_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_ESCAPES: Final = [chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in range(256)]
_WHOLE: Final = {b"": "%", b".": "%2E", b"..": "%2E%2E"}
_HASH_PREFIX: Final = "%sha256-"
_HASHED: Final = re.compile(rf"{_HASH_PREFIX}[0-9a-f]{{64}}")
_ESCAPE: Final = re.compile(r"%([0-9A-F]{2})")
_EXPECTED: Final = "an escaped id; such have ASCII letters, digits, '.', '_', '-' and other bytes as in %2F"


def escape(identifier: bytes) -> str:
    """The file name of an id."""
    name = _WHOLE.get(identifier) or "".join([_ESCAPES[byte] for byte in identifier])
    if len(name) <= NAME_BYTES_MAX:
        return name
    import hashlib  # slow to load, and such ids are rare

    return f"{_HASH_PREFIX}{hashlib.sha256(identifier).hexdigest()}"


def unescape(name: str) -> bytes | None:
    """The id that a file name is of, or None for a hash; raises `BadNameError` if no id has that name."""
    if _HASHED.fullmatch(name):
        return None
    text = "" if name == "%" else _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), name)
    # Only a name that the id itself gets is in the grammar: neither %41 nor anything beyond ASCII.
    identifier = text.encode("latin-1", "replace")
    if escape(identifier) != name:
        raise BadNameError(name, _EXPECTED)
    return identifier
