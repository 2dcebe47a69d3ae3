"""Segment maps: a tile for each segment, shaded by its age, with a bar for its size, its codec, and what is next.

Nothing is told by colour alone. Maps are for eyes; each has a sentence and a table that say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkafs.report.facts import Next
from kafkafs.report.page.markup import NOTHING, Markup, element, joined, raw
from kafkafs.report.page.tables import Cell, folded, table
from kafkafs.report.page.words import NONE, bytes_text, counted, time_text
from kafkafs.report.timeline import DAY_MS, HOUR_MS
from storage.offset_text import offsets_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkafs.report.facts import PartitionFacts, Report, SegmentFacts

_PARTITIONS_MAX: Final = 150
_TILES_MAX: Final = 5000
_TILES_OF_PARTITION: Final = 120
_ROWS_MAX: Final = 2000
_ROWS_OF_PARTITION: Final = 60
_AGES: Final = (
    (HOUR_MS, "written in the last hour before the newest record"),
    (DAY_MS, "in the last day"),
    (7 * DAY_MS, "in the last week"),
    (28 * DAY_MS, "in the last four weeks"),
)
_OLDER: Final = "older, or without a time"
_LETTERS: Final = {"none": "n", "gzip": "g", "snappy": "s", "lz4": "l", "zstd": "z"}
_SIGNS: Final = {Next.DELETED: "✕", Next.COMPACTED: "▼", Next.DIRTY: "▽", Next.KEPT: ""}
_NEXT: Final = {
    Next.DELETED: "deleted next",
    Next.COMPACTED: "compacted next",
    Next.DIRTY: "compacted later",
    Next.KEPT: "kept",
}


def maps(report: Report) -> Markup:
    """Draw the partitions with damage, those with something due, and the largest ones, as far as there is room."""
    tiles, rows = _TILES_MAX, _ROWS_MAX
    drawn: list[Markup] = []
    readable = [each for each in report.partitions if each.segments]
    for partition in sorted(readable, key=_rank):
        tiles -= min(len(partition.segments), _TILES_OF_PARTITION)
        if tiles < 0 or len(drawn) == _PARTITIONS_MAX:
            break
        shown = partition.segments[-min(_ROWS_OF_PARTITION, rows) :] if rows else ()
        rows -= len(shown)
        drawn.append(_map(partition, shown, report.newest_ms))
    if not drawn:
        return element("p", "There are no segments.")
    left_out = len(readable) - len(drawn)
    more = (
        f"{counted(left_out, 'more partition')} not drawn: damage comes first, then what is due, then the largest."
        if left_out
        else None
    )
    return joined(
        [_key(), element("div", *drawn, class_="maps"), element("p", more, class_="quiet") if more else NOTHING]
    )


def _rank(partition: PartitionFacts) -> tuple[bool, bool, int]:
    is_damaged = any(segment.damage for segment in partition.segments)
    is_due = any(segment.next in (Next.DELETED, Next.COMPACTED) for segment in partition.segments)
    return not is_damaged, not is_due, -partition.size_bytes


def _map(partition: PartitionFacts, shown: Sequence[SegmentFacts], newest_ms: int | None) -> Markup:
    segments = partition.segments
    together = -(-len(segments) // _TILES_OF_PARTITION)
    runs = (segments[at : at + together] for at in range(0, len(segments), together))
    largest = max(segment.size_bytes for segment in segments) or 1
    tiles = joined(_tile(run, _age(run[-1], newest_ms), largest, is_titled=bool(shown)) for run in runs)
    said = _sentence(partition, together)
    return element(
        "div",
        *[
            element("h3", partition.name),
            element("p", said, class_="quiet"),
            element("div", tiles, class_="map", role="img", aria_label=f"Segment map of {partition.name}: {said}"),
            _figures(partition, shown) if shown else NOTHING,
        ],
    )


def _tile(run: Sequence[SegmentFacts], age: int, largest: int, *, is_titled: bool) -> Markup:
    """Return a tile for a segment, or for neighbours, of which it shows the worst."""
    last = run[-1]
    worst = min(run, key=lambda each: (each.damage is None, list(Next).index(each.next)))
    sign = "!" if worst.damage else _SIGNS[worst.next]
    codecs = {segment.codec for segment in run}
    letter = _LETTERS.get(last.codec or "", "?") if len(codecs) == 1 else "+"
    marks = [f"a{age}"]
    marks += ["d"] if worst.damage else ["x"] if worst.next in (Next.DELETED, Next.COMPACTED) else []
    height = round(100 * max(segment.size_bytes for segment in run) / largest)
    title = None
    if is_titled:
        where = offsets_text(run[0].base_offset, last.end_offset)
        size = bytes_text(sum(segment.size_bytes for segment in run))
        title = f"{where}, {size}, {last.codec or 'empty'}, to {time_text(last.last_timestamp)}, {_fate(worst)}"
    return element("i", _two_lines(letter, sign), class_=" ".join(marks), style=f"--h:{max(height, 4)}", title=title)


def _age(segment: SegmentFacts, newest_ms: int | None) -> int:
    if segment.last_timestamp is None or newest_ms is None:
        return len(_AGES)
    age_ms = newest_ms - segment.last_timestamp
    return next((number for number, (most_ms, _) in enumerate(_AGES) if age_ms <= most_ms), len(_AGES))


def _two_lines(letter: str, sign: str) -> Markup:
    return joined([letter, raw("\n"), sign])


def _fate(segment: SegmentFacts) -> str:
    return f"damaged: {segment.damage}" if segment.damage else _NEXT[segment.next]


def _sentence(partition: PartitionFacts, together: int) -> str:
    segments = partition.segments
    parts = [f"{counted(partition.segment_count, 'segment')}, {bytes_text(partition.size_bytes)}"]
    if partition.segment_count > len(segments):
        parts[0] += f", of which the newest {len(segments)} are shown"
    if partition.first_timestamp is not None:
        parts.append(f"from {time_text(partition.first_timestamp)} to {time_text(partition.last_timestamp)}")
    for which, what in ((Next.DELETED, "deleted next"), (Next.COMPACTED, "compacted next")):
        number = sum(segment.next is which for segment in segments)
        parts += [f"{number} {what}"] if number else []
    damaged = sum(segment.damage is not None for segment in segments)
    parts.append(f"{damaged} damaged" if damaged else "no damage found")
    if together > 1:
        parts.append(f"a tile stands for {together} of them")
    return "; ".join(parts) + "."


def _figures(partition: PartitionFacts, shown: Sequence[SegmentFacts]) -> Markup:
    rows = (
        (
            segment.base_offset,
            segment.codec or NONE,
            Cell("words", _words(segment)),
            time_text(segment.expires_ms),
            time_text(segment.first_timestamp),
            time_text(segment.last_timestamp),
            bytes_text(segment.size_bytes),
        )
        for segment in shown
    )
    columns = ("Base offset", "Codec", "Next", "Retention by time", "From (UTC)", "To (UTC)", "Size")
    which = "Newest segments" if len(shown) < partition.segment_count else "Segments"
    caption = f"{which} of {partition.name}"
    return folded(f"{caption}: figures", table(caption, columns, rows, numbers_from=4))


def _words(segment: SegmentFacts) -> str:
    active = "active; " if segment.is_active else ""
    why = f": {segment.reason}" if segment.reason and not segment.damage else ""
    return f"{active}{_fate(segment)}{why}"


def _key() -> Markup:
    ages = [(f"a{number}", "", words) for number, (_, words) in enumerate(_AGES)]
    items = [
        *ages,
        (f"a{len(_AGES)}", "", _OLDER),
        ("a2 x", "✕", "retention deletes it next"),
        ("a2 x", "▼", "compaction is due, and rewrites it"),
        ("a2", "▽", "compaction rewrites it later"),
        ("a2 d", "!", "damaged"),
    ]
    codecs = ", ".join(f"{letter} {codec}" for codec, letter in _LETTERS.items())
    return joined(
        [
            element(
                "p",
                "Each tile is a segment, the oldest first. The bar at its left is as high as it is large beside the "
                f"largest segment of its log. Its letter is the codec of its first batch: {codecs}.",
            ),
            element(
                "ul",
                *(
                    element(
                        "li",
                        element("i", _two_lines("n" if sign else "", sign), class_=marks, aria_hidden="true"),
                        words,
                    )
                    for marks, sign, words in items
                ),
                class_="key",
            ),
        ]
    )
