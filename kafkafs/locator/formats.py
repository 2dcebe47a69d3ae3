"""The suffix that says in which form records are shown.

Every form goes with a record, a run of records and a time alike. A run shows one record after another, so that its
`.json` is a sequence of indented objects, as jq reads it; only `.batch` has each batch once, for all the records in it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Format(StrEnum):
    """The shown form of a record; the value is the suffix."""

    VALUE = ""
    KEY = ".key"
    HEADERS = ".headers"
    JSON = ".json"  # the envelope, indented
    JSONL = ".jsonl"  # the envelope on one line
    HEX = ".hex"
    BATCH = ".batch"  # the raw bytes of the batches that hold the records


SUFFIX_EXAMPLES: Final = f"each also with {', '.join(form for form in Format if form)} after it"

_BY_SUFFIX: Final = {form[1:]: form for form in Format if form}


def split_format(name: str) -> tuple[str, Format]:
    """Return the name without its suffix, and the format; the whole name and `VALUE` if it has no suffix.

    No record, range or time ends in a suffix itself, so nothing is taken from one.
    """
    body, dot, suffix = name.rpartition(".")
    form = _BY_SUFFIX.get(suffix)
    return (name, Format.VALUE) if form is None or not dot else (body, form)
