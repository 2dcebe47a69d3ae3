"""The page of a report: well formed, alone, escaped, readable by all, and small, also of hostile and of many facts."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest
from parsed_pages import check_page

from kafkafs.report import Report, page_of
from kafkafs.report.facts import (
    CodecFacts,
    FindingFacts,
    GroupFacts,
    KeyFacts,
    LogDirFacts,
    Next,
    PartitionFacts,
    SegmentFacts,
    TransactionFacts,
    topics_of,
)
from kafkafs.report.page.style import STYLE
from kafkafs.report.timeline import Bucket

NOW_MS: Final = 1_700_000_000_000
HOUR_MS: Final = 3_600_000
HOSTILE: Final = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</td></table></main><iframe src=//example.org>",
    "\x1b[31mred\x00\r\n",
    "\u202egnp.exe",
    "`code` &amp; &lt;b&gt;",
    "\udc80\ud800",
    "x" * 100_000,
)


def segment(number: int, **more: Any) -> SegmentFacts:
    facts: dict[str, Any] = {
        "base_offset": 1000 * number,
        "end_offset": 1000 * number + 1000,
        "size_bytes": 1_000_000 + number,
        "first_timestamp": NOW_MS - 40 * HOUR_MS,
        "last_timestamp": NOW_MS - 30 * HOUR_MS,
        "codec": "zstd",
        "is_active": False,
        "next": Next.KEPT,
        "expires_ms": NOW_MS,
        "reason": "",
        "damage": None,
    }
    return SegmentFacts(**facts | more)


def partition(topic: str, number: int, **more: Any) -> PartitionFacts:
    facts: dict[str, Any] = {
        "topic": topic,
        "partition": number,
        "log_dir": "/var/lib/kafka",
        "end_offset": 12_345_678,
        "size_bytes": 3_000_000_000,
        "records": 12_345_678,
        "first_timestamp": NOW_MS - 40 * HOUR_MS,
        "last_timestamp": NOW_MS,
        "retention": "nothing is to be deleted",
        "codecs": {"zstd": CodecFacts(batches=3, size_bytes=300, stored_bytes=200, plain_bytes=900)},
        "segments": tuple(map(segment, range(3))),
    }
    return PartitionFacts(**facts | more)


def report(partitions: tuple[PartitionFacts, ...] = (), **more: Any) -> Report:
    facts: dict[str, Any] = {
        "store": "/var/lib/kafka",
        "made_ms": NOW_MS,
        "version": "0",
        "is_full": False,
        "has_keys": True,
        "log_dirs": (LogDirFacts(path="/var/lib/kafka", partitions=len(partitions), size_bytes=1, free_bytes=None),),
        "partitions": partitions,
        "topics": topics_of(partitions, {}),
        "newest_ms": NOW_MS,
        "growth": (),
        "day": (),
        "doubtful_segments": 0,
        "sampled_batches": 3,
        "keys": (),
        "has_groups": True,
        "groups": (),
        "transactions": (),
        "findings": (),
        "shortcomings": (),
    }
    return Report(**facts | more)


def finding(text: str, severity: str = "damage", kind: str = "checksum") -> FindingFacts:
    return FindingFacts(
        severity=severity,
        kind=kind,
        path=f"orders-0/{text}",
        position=1,
        offset=2,
        reason=text,
        at_start=text,
        next_step="See `STORE`.",
    )


def group(name: str, **more: Any) -> GroupFacts:
    facts: dict[str, Any] = {
        "group": name,
        "state": "Stable",
        "kind": "Classic",
        "topic": "orders",
        "partition": 0,
        "committed_offset": 1,
        "end_offset": 3,
        "lag": 2,
        "age_seconds": 90,
        "client_id": name,
        "host": name,
    }
    return GroupFacts(**facts | more)


def transaction(name: str) -> TransactionFacts:
    return TransactionFacts(
        transactional_id=name,
        producer_id=1,
        producer_epoch=0,
        state=name,
        age_seconds=5000,
        timeout_ms=60_000,
        partitions=(name,) * 9,
        holds_up=(name,),
        next_steps=(name,) * 9,
    )


def of_texts(texts: tuple[str, ...]) -> Report:
    """Return a report with these texts wherever a store has a say."""
    parts = [
        partition("orders", 0, retention=texts[0], freed_segments=1),
        partition("orders", 1, error=texts[1], segments=()),
        *(
            partition(
                text[:249],
                0,
                segments=(segment(0, damage=text, codec=text), segment(1, reason=text, next=Next.DELETED)),
            )
            for text in texts
        ),
    ]
    buckets = tuple(Bucket(NOW_MS + 900_000 * number, 900_000, 1000 * number, number) for number in range(96))
    return report(
        tuple(parts),
        store=texts[0],
        log_dirs=tuple(LogDirFacts(path=text, partitions=1, size_bytes=1, free_bytes=5) for text in texts),
        growth=buckets,
        day=buckets,
        doubtful_segments=1,
        keys=tuple(
            KeyFacts(topic=text, key=text.encode("utf-8", "surrogatepass"), records=2, over=1, looked_at=9)
            for text in texts
        ),
        groups=tuple(map(group, texts)),
        transactions=tuple(map(transaction, texts)),
        findings=(*map(finding, texts), finding("x", "notice"), finding("y", "unreadable")),
        shortcomings=texts,
    )


def test_a_page_of_nothing() -> None:
    page = check_page(page_of(report()))
    (main,) = page.all("main")
    assert "There are no topics." in main.text
    assert "There are no groups." in main.text


def test_hostile_names_stay_text() -> None:
    page = check_page(page_of(of_texts(HOSTILE)))
    (main,) = page.all("main")
    for text in HOSTILE[:3]:
        assert text in main.text
    assert "\\u001B[31mred" in main.text
    assert "\\u202Egnp.exe" in main.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e\ud800-\udfff]", page.source)
    assert "x" * 401 not in page.source


def test_nothing_is_told_by_colour_alone() -> None:
    tiles = (
        segment(0, next=Next.DELETED),
        segment(1, next=Next.COMPACTED),
        segment(2, next=Next.DIRTY),
        segment(3, damage="the batch's bytes are others"),
        segment(4, codec="gzip"),
    )
    page = check_page(page_of(report((partition("orders", 0, segments=tiles),))))
    (drawn,) = [each for each in page.elements if each.attributes.get("class") == "map"]
    assert [tile.text for tile in page.all("i")][-5:] == ["z\n✕", "z\n▼", "z\n▽", "z\n!", "g\n"]
    said = str(drawn.attributes["aria-label"])
    assert all(words in said for words in ("5 segments", "1 deleted next", "1 compacted next", "1 damaged"))
    assert any("the batch's bytes are others" in cell.text for cell in page.all("td"))


def test_a_segment_has_its_first_and_its_last_offset() -> None:
    one, none = segment(1, end_offset=1001), segment(2, end_offset=2000)
    page = check_page(page_of(report((partition("t", 0, segments=(segment(0), one, none)),))))
    titles = [str(tile.attributes["title"]).partition(", ")[0] for tile in page.all("i") if "title" in tile.attributes]
    assert titles == ["offsets 0 to 999", "offset 1000", "no records (the next offset is 2000)"]


def test_charts_have_every_value() -> None:
    page = check_page(page_of(of_texts(HOSTILE)))
    area, *bars = [str(path.attributes["d"]) for path in page.all("path")]
    assert area.count("L") == 96
    assert [drawn.count("M") for drawn in bars] == [95, 95]  # the first value is 0
    figures = [each for each in page.all("caption") if "per second in the newest day: figures" in each.text]
    assert len(figures) == 2


def test_what_is_sampled_is_marked_and_nothing_else() -> None:
    parts = (partition("orders", 0),)
    keys = (KeyFacts(topic="orders", key=b"k", records=2, over=0, looked_at=9),)

    def tags(*, is_full: bool) -> int:
        page = check_page(page_of(report(parts, keys=keys, is_full=is_full)))
        return sum(each.attributes.get("class") == "tag" for each in page.elements)

    assert tags(is_full=False) == 2  # codecs and keys
    assert tags(is_full=True) == 0


def test_ten_thousand_partitions_are_five_megabytes() -> None:
    parts = tuple(
        partition(f"a-topic-with-a-name-{topic:03}", number) for topic, number in product(range(200), range(50))
    )
    many = replace(of_texts(HOSTILE), partitions=parts, topics=topics_of(parts, {}), findings=(finding("x"),) * 5000)
    groups = tuple(group(f"group-{number}", partition=number) for number in range(10_000))
    data = page_of(replace(many, groups=groups))
    assert len(data) < 5_000_000
    assert data.count(b"<td>a-topic-with-a-name-199-49</td>") == 1
    assert b"more partitions not drawn" in data


def test_a_log_of_many_segments_is_drawn_with_tiles_of_several() -> None:
    page = check_page(page_of(report((partition("orders", 0, segments=tuple(map(segment, range(5000)))),))))
    (drawn,) = [each for each in page.elements if each.attributes.get("class") == "map"]
    tiles = [tile for tile in page.all("i") if re.fullmatch(r"--h:\d+", tile.attributes.get("style") or "")]
    assert len(tiles) == 120
    assert "a tile stands for 42 of them" in str(drawn.attributes["aria-label"])


def _luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_every_text_has_the_contrast_of_wcag(scheme: str) -> None:
    light, dark, printed = re.findall(r":root\{([^}]*)\}", STYLE)
    colours = dict(re.findall(r"--([\w]+):(#[0-9a-f]{3,6})", {"light": light, "dark": dark, "print": printed}[scheme]))
    texts = ("text", "quiet", "link", "bad", "warn", "good")
    tiles = [("text", f"a{number}") for number in range(5)]
    for text, ground in [*product(texts, ("bg", "panel")), *tiles]:
        assert _contrast(colours[text], colours[ground]) >= 4.5, (scheme, text, ground)
    assert _contrast(colours["fill"], colours["bg"]) >= 3  # of drawings
