"""The beginning of the page: the figures that matter most, and what to look at first."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from kafkafs.report.page.markup import Markup, element, joined, prose
from kafkafs.report.page.words import age_text, bytes_text, counted, number_text, time_text
from storage.verify import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.report.facts import Report

_DAYS_OF_SPACE_MIN: Final = 3
_UNKNOWN: Final = "settings are unknown"


def summary(report: Report) -> Markup:
    """Return the cards, and the list of what to look at first."""
    first = list(_first(report))
    listed = element("ol", *first, class_="first") if first else element("p", "Nothing stands out.", class_="good")
    return joined([element("dl", *_cards(report), class_="cards"), element("h3", "What to look at first"), listed])


def _cards(report: Report) -> Iterator[Markup]:
    topics, partitions = len(report.topics), len(report.partitions)
    yield _card("Partitions", number_text(partitions), f"of {counted(topics, 'topic')}")
    yield _card("Size of the logs", bytes_text(report.size_bytes), counted(_segments(report), "segment"))
    what = "Records" if report.is_full else "Offsets"
    yield _card(
        what, number_text(report.records), "counted" if report.is_full else "first to last; records may be fewer"
    )
    yield _card("Newest record", time_text(report.newest_ms), "UTC")
    yield _card("Written in its day", bytes_text(report.day_bytes), "the 24 hours before it")
    free = [each.free_bytes for each in report.log_dirs if each.free_bytes is not None]
    yield _card("Free on disk", bytes_text(min(free, default=None)), "in the fullest log directory")
    freed = sum(each.freed_bytes for each in report.topics)
    yield _card("Retention frees", bytes_text(freed), "at its next run")
    lags = [each.lag for each in report.groups if each.lag is not None]
    yield _card("Largest lag", number_text(max(lags, default=None)), "of a group in a partition")
    yield _card("Open transactions", number_text(len(report.transactions)), "by coordinators and logs")
    damaged = sum(each.severity == Severity.DAMAGE for each in report.findings)
    depth = "everything was read" if report.is_full else "contents were not read"
    yield _card("Damage", counted(damaged, "finding"), depth, "bad" if damaged else "good")


def _card(name: str, value: str, note: str, kind: str | None = None) -> Markup:
    return element(
        "div", element("dt", name), element("dd", element("span", value, class_=kind), element("small", note))
    )


def _segments(report: Report) -> int:
    return sum(each.segments for each in report.topics)


def _first(report: Report) -> Iterator[Markup]:
    """Yield what stands out, the worst first, each with where to go on."""
    yield from _broken(report)
    yield from _waiting(report)
    yield from _unsure(report)


def _broken(report: Report) -> Iterator[Markup]:
    failures = sum(each.failures for each in report.topics)
    if failures:
        yield _item("bad", f"{counted(failures, 'partition')} could not be read.", "findings", "See why")
    damaged = sum(each.severity == Severity.DAMAGE for each in report.findings)
    if damaged:
        yield _item("bad", f"{counted(damaged, 'finding')} of damage.", "findings", "See where, and what to do")
    for log_dir in report.log_dirs:
        if report.day_bytes and log_dir.free_bytes is not None:
            days = log_dir.free_bytes / report.day_bytes
            if days < _DAYS_OF_SPACE_MIN:
                text = f"{log_dir.path} has room for {days:.1f} days at the newest day's rate."
                yield _item("bad", text, "next", "See what retention frees")


def _waiting(report: Report) -> Iterator[Markup]:
    held = [each for each in report.transactions if each.holds_up]
    if held:
        ages = [each.age_seconds for each in held if each.age_seconds is not None]
        oldest = f", the oldest for {age_text(max(ages))}" if ages else ""
        hold = "holds" if len(held) == 1 else "hold"
        text = f"{counted(len(held), 'open transaction')} {hold} up readers of committed records{oldest}."
        yield _item("warn", text, "transactions", "See how to end them")
    behind = max((each for each in report.groups if each.lag), key=lambda each: each.lag or 0, default=None)
    if behind is not None:
        text = f"The group {behind.group} is {behind.lag:,} offsets behind in {behind.topic}-{behind.partition}."
        yield _item("warn", text, "groups", "See all groups")


def _unsure(report: Report) -> Iterator[Markup]:
    unknown = sum(_UNKNOWN in each.retention for each in report.partitions)
    if unknown:
        text = (
            f"The settings of {counted(unknown, 'partition')} are unknown, so nothing can be said of their retention: "
            f"make the report with `--server-properties FILE`."
        )
        yield _item("warn", text, "next", "See which")
    if report.doubtful_segments:
        doubtful = counted(report.doubtful_segments, "segment")
        text = f"Timestamps of {doubtful} cannot be right; the charts are without them."
        yield _item("warn", text, "partitions", "See the times of partitions")
    if not report.is_full:
        store = shlex.quote(report.store)
        text = f"No checksum of a whole log was checked: `kafkafs verify {store}` does it, and so does `--full`."
        yield _item("quiet", text, "about", "See how this page was made")


def _item(kind: str, text: str, place: str, link: str) -> Markup:
    return element("li", element("span", prose(text), class_=kind), " ", element("a", link, href=f"#{place}"), ".")
