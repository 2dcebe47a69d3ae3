"""Several topics of one name on the disks, as where one was deleted and made again: what is said of those left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.ids import format_id
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from kafkafs.revive.disks import Candidate
    from storage.replicas import Replica


def namesake_notes(topic: str, chosen: UUID, why: str, sources: Sequence[tuple[Candidate, Replica]]) -> Iterator[str]:
    """Yield which topic of the name is revived and why, how to have another, and each directory that is left out."""
    others = [each for each in sources if each[0].topic_id not in (None, chosen)]
    count = 1 + len({candidate.topic_id for candidate, _ in others})
    yield (
        f"{count} topics of this name are on the disks; the one with the id {format_id(chosen)} is revived, because "
        f"{why}; to have another, move the directories of the others away, or its own into an empty directory, and "
        f"revive that by itself, with the same options, --topics {topic} and another --into"
    )
    for candidate, replica in others:
        assert candidate.topic_id is not None
        offsets = offsets_text(replica.base_offset, replica.end_offset)
        yield f"left out {candidate.directory}: {offsets} of the topic with the id {format_id(candidate.topic_id)}"
