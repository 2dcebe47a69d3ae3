"""Bytes as `hexdump -C` shows them."""

from __future__ import annotations

from typing import Final

_ROW_BYTES: Final = 16
_HALF_WIDTH: Final = 23  # of eight bytes
_ROW_WIDTH: Final = 49  # of both halves, and the spaces between them
_PRINTABLE: Final = bytes(byte if 0x20 <= byte < 0x7F else ord(".") for byte in range(256))


def hex_dump(data: bytes | None) -> bytes:
    """Return rows of 16 bytes, repeated rows as one `*`, and the size at the end.

    Empty bytes have the size alone, and null has nothing; `hexdump` shows nothing for either.
    """
    if data is None:
        return b""
    lines = []
    text = data.translate(_PRINTABLE).decode("ascii")
    row_before = b""
    is_squeezed = False
    for start in range(0, len(data), _ROW_BYTES):
        row = data[start : start + _ROW_BYTES]
        if row == row_before:
            if not is_squeezed:
                lines.append("*\n")
            is_squeezed = True
            continue
        is_squeezed = False
        row_before = row
        digits = row.hex(" ")
        halves = f"{digits[:_HALF_WIDTH]} {digits[_HALF_WIDTH:]}"
        lines.append(f"{start:08x}  {halves:<{_ROW_WIDTH}} |{text[start : start + _ROW_BYTES]}|\n")
    lines.append(f"{len(data):08x}\n")
    return "".join(lines).encode()
