"""The checkpoint of a streaming query, wherever Spark keeps it, by which the sink knows the query again.

A path without a scheme and a `file:` URI are read from this machine. Others are read by pyarrow, with the credentials
that it finds.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

_FILE: Final = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_URI: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_PYARROWS: Final = {"s3a": "s3", "s3n": "s3"}
"""What Hadoop calls differently."""


def local_path(text: str) -> str:
    """Return the path of a file of this machine that is named by a path or a `file:` URI, which is not unescaped."""
    match = _FILE.match(text)
    return text if match is None else text[match.end() :]


def query_id(checkpoint: str) -> str:
    """Return the id of the query; raises `OSError`, `ValueError` or `LookupError` if it cannot be read."""
    place = local_path(checkpoint)
    scheme = _URI.match(place)
    data = Path(place, "metadata").read_bytes() if scheme is None else _elsewhere(checkpoint, scheme[1].lower())
    return str(json.loads(data)["id"])


def _elsewhere(checkpoint: str, scheme: str) -> bytes:
    from pyarrow.fs import FileSystem

    uri = f"{_PYARROWS.get(scheme, scheme)}:{checkpoint.partition(':')[2]}"
    filesystem, path = FileSystem.from_uri(uri)
    with filesystem.open_input_file(f"{path.rstrip('/')}/metadata") as file:
        return bytes(file.read())
