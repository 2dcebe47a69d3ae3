"""Files in a partition's directory that no log needs, left by a crash or by a broker that was stopped in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from storage.files import TEMPORARY_SUFFIX
from storage.log.epochs import EPOCHS_NAME
from storage.log.partition_metadata import PARTITION_METADATA_NAME
from storage.log.recover.report import Repair, Step
from storage.segment.names import SEGMENT_KINDS, FileSuffix, Kind, parse_name, parsed
from storage.segment.replacement import finish_replacements

if TYPE_CHECKING:
    from storage.files import Directory

_REPLACED_NAMES: Final = frozenset({EPOCHS_NAME, PARTITION_METADATA_NAME})


def remove_leftovers(directory: Directory, names: list[str]) -> list[Step]:
    """Finish replacements that were under way, and remove files that belong to no segment; returns what was done."""
    steps = [
        Step(Repair.REMOVED if tidied.became is None else Repair.RENAMED, tidied.name, tidied.reason)
        for tidied in finish_replacements(directory, names)
    ]
    texts = directory.names() if steps else names
    live = [name for name in parsed(texts) if name.suffix is FileSuffix.LIVE]
    bases = {name.offset for name in live if name.kind is Kind.LOG}
    orphans = [str(name) for name in live if name.kind in SEGMENT_KINDS and name.offset not in bases]
    doomed = dict.fromkeys(sorted(orphans), "there is no log to it")
    doomed |= dict.fromkeys(sorted(filter(_is_temporary, texts)), "it was never completed")
    for text, reason in doomed.items():
        directory.remove(text)
        steps.append(Step(Repair.REMOVED, text, reason))
    return steps


def _is_temporary(text: str) -> bool:
    """True if it is the temporary file that was to replace a file of ours."""
    meant = text.removesuffix(TEMPORARY_SUFFIX)
    return meant != text and (meant in _REPLACED_NAMES or parse_name(meant) is not None)
