"""How a user names a store: by a path, by a `file:` URI, or by the URI of a prefix in an object store.

Everything below goes by paths, to which names are added with slashes between them. So the options of a URI stay where
the user wrote them, at the end of the store: `s3://bucket/backup?region=eu-west-1/orders-0` is a directory in it.
`pathlib` makes `s3:/` of `s3://`; both mean the same.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from storage.errors import NotAStoreError

_URI: Final = re.compile(r"(s3|gs|abfss?|hdfs):/{1,2}([^/?]+)(/[^?]*)?(?:\?([^/]*))?(/.*)?", re.DOTALL)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FILE: Final = re.compile(r"file:(?://(?=/)|(?=/(?!/)))", re.IGNORECASE)
_READ: Final = "kafkafs reads paths and file:, s3://, gs://, abfs:// and hdfs:// URIs"
_SECRET_OPTION: Final = re.compile(r"secret|token|key|password|credential|^sig$|^sas", re.IGNORECASE)
_NO_SECRETS: Final = (
    "a URI with credentials shows them in messages, process lists and logs; give them to pyarrow another way: in the "
    "environment, in a profile, or by the machine's role"
)


class ObjectPlace(NamedTuple):
    """A prefix or an object: the store that has it, as in a URI, and its path there."""

    scheme: str
    authority: str
    options: str
    path: str


def parse_object_path(text: str) -> ObjectPlace | None:
    """Return the place that a path leads to; None if it leads to the operating system's files."""
    match = _URI.fullmatch(text)
    if match is None:
        return None
    scheme, authority, path, options, rest = match.groups(default="")
    return ObjectPlace(scheme, authority, options, f"{path}{rest}".strip("/"))


def as_uri(path: str) -> str:
    """Return the URI of a path that leads into an object store, with both slashes; another path as it is."""
    if parse_object_path(path) is None:
        return path
    scheme, _, rest = path.partition(":")
    return f"{scheme}://{rest.strip('/')}"


def is_in_object_store(path: str | os.PathLike[str]) -> bool:
    """Return True for a path that leads into an object store."""
    return parse_object_path(os.fspath(path)) is not None


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Return a path that means the same in every process; the URI of what is in an object store."""
    return as_uri(os.fspath(path)) if is_in_object_store(path) else str(Path(path).absolute())


def store_path(text: str) -> Path:
    """Return the path of a log directory that a user named, as `plain_path` does; a relative one stays relative.

    Raises `NotAStoreError` for a URI that cannot be one.
    """
    match = _FILE.match(text)
    if match is not None:
        return plain_path(Path(text[match.end() :]))
    place = parse_object_path(text)
    if place is not None:
        _check(place, text)
        return Path(text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return plain_path(Path(text))
    name = scheme[1].lower()
    if name == "file":
        raise NotAStoreError("a file: URI names a file of this machine: file:/// and its path", path=text)
    if name in {"s3a", "s3n"}:
        raise NotAStoreError(f"{name}:// is Hadoop's name of s3://; write s3://", path=text)
    if name in {"s3", "gs", "abfs", "abfss", "hdfs"}:
        raise NotAStoreError(f"the URI has no bucket, container or host after {name}://", path=text)
    raise NotAStoreError(f"nothing reads {name}:// here: {_READ}", path=text)


def plain_path(path: Path) -> Path:
    """Return the path without `..` after a name, unless a link makes that lead elsewhere."""
    plain = Path(os.path.normpath(path))
    return plain if ".." in path.parts and os.path.realpath(plain) == os.path.realpath(path) else path


def _check(place: ObjectPlace, text: str) -> None:
    user, at, _ = place.authority.rpartition("@")
    names = [option.partition("=")[0] for option in place.options.split("&")]
    if (at and (place.scheme == "s3" or ":" in user)) or any(map(_SECRET_OPTION.search, names)):
        raise NotAStoreError(_NO_SECRETS)
    if "://" in text.partition("?")[2]:
        raise NotAStoreError(
            "the options of a URI have no slashes; write endpoint_override=HOST:PORT&scheme=http", path=text
        )
