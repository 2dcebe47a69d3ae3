"""The sections of the page on groups, transactions and findings, and on how it was made."""

from __future__ import annotations

import shlex
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkafs.report.page.markup import NOTHING, Markup, element, joined, prose
from kafkafs.report.page.tables import Cell, folded, table
from kafkafs.report.page.words import NONE, age_text, counted, number_text, time_text
from storage.verify import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkafs.report.facts import FindingFacts, GroupFacts, Report

_KINDS: Final = {Severity.DAMAGE: "bad", Severity.UNREADABLE: "warn", Severity.NOTICE: "quiet"}
_MOST_PARTITIONS: Final = 5
_MOST_COMMANDS: Final = 3
_OF_KIND_MAX: Final = 100


def groups(report: Report) -> Markup:
    """Show the groups, and where they are furthest behind."""
    if not report.has_groups:
        return element("p", "The store has no partition of __consumer_offsets, and so has no groups.")
    if not report.groups:
        return element("p", "There are no groups.")
    by_group = [list(rows) for _, rows in groupby(report.groups, key=attrgetter("group"))]
    by_group.sort(key=lambda rows: -sum(row.lag or 0 for row in rows))
    behind = sorted(report.groups, key=lambda each: -(each.lag or 0))
    columns = ("Group", "State", "Kind", "Partitions", "Lag", "Largest lag", "Oldest commit")
    detailed = ("Group", "Partition", "Client", "Committed", "End", "Lag", "Committed ago")
    return joined(
        [
            table(
                "Groups, those furthest behind first",
                columns,
                map(_group, by_group),
                numbers_from=4,
                count=len(by_group),
            ),
            folded(
                "Partitions of groups",
                table(
                    "Partitions of groups, those furthest behind first",
                    detailed,
                    map(_group_row, behind),
                    numbers_from=4,
                    count=len(behind),
                ),
                is_open=len(behind) <= 50,
            ),
        ]
    )


def _group(rows: list[GroupFacts]) -> tuple[object, ...]:
    lags = [row.lag for row in rows if row.lag is not None]
    ages = [row.age_seconds for row in rows if row.age_seconds is not None]
    return (
        Cell("name", rows[0].group),
        rows[0].state,
        rows[0].kind,
        sum(row.topic is not None for row in rows),
        number_text(sum(lags)) if lags else NONE,
        number_text(max(lags, default=None)),
        age_text(max(ages, default=None)),
    )


def _group_row(row: GroupFacts) -> tuple[object, ...]:
    client = " ".join(filter(None, (row.client_id, row.host)))
    return (
        Cell("name", row.group),
        Cell("name", NONE if row.topic is None else f"{row.topic}-{row.partition}"),
        Cell("name", client or NONE),
        number_text(row.committed_offset),
        number_text(row.end_offset),
        number_text(row.lag),
        age_text(row.age_seconds),
    )


def transactions(report: Report) -> Markup:
    """Show the open transactions, what they hold up, and how to end them."""
    if not report.transactions:
        return element("p", "There are none.")
    rows = (
        (
            Cell("name", each.transactional_id or "(unknown)"),
            each.state or NONE,
            Cell("name", _some(each.partitions)),
            Cell("words", _some(each.holds_up)),
            Cell("words", _commands(each.next_steps)),
            each.producer_id,
            age_text(each.age_seconds),
        )
        for each in report.transactions
    )
    columns = ("Transactional id", "State", "Partitions", "Holds up", "To end it", "Producer", "Open for")
    return joined(
        [
            element(
                "p",
                "Readers of committed records stop before an open transaction. End it only if its producer is gone.",
            ),
            table("Open transactions, the oldest first", columns, rows, count=len(report.transactions)),
        ]
    )


def _commands(commands: tuple[str, ...]) -> Markup:
    if not commands:
        return element("span", "nothing in this store waits for it")
    more = len(commands) - _MOST_COMMANDS
    shown = (element("p", element("code", command)) for command in commands[:_MOST_COMMANDS])
    return joined([*shown, element("p", f"and {more} more like these") if more > 0 else NOTHING])


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_PARTITIONS
    return ", ".join(names[:_MOST_PARTITIONS]) + (f" and {more} more" if more > 0 else "") or NONE


def findings(report: Report) -> Markup:
    """Show what is wrong, kind by kind, the worst first, and what to do about it."""
    depth = (
        "All that can be read was checked."
        if report.is_full
        else "Names of files, small files, ends of logs, indexes and some batches were checked; contents were not."
    )
    if not report.findings:
        return joined([element("p", depth), element("p", "Nothing was found.", class_="good")])
    by_kind = {
        what: list(members)
        for what, members in groupby(report.findings, key=lambda each: (Severity(each.severity), each.kind))
    }
    return joined([element("p", depth), *(_of_kind(report, *what, found) for what, found in by_kind.items())])


def _of_kind(report: Report, severity: Severity, kind: str, found: list[FindingFacts]) -> Markup:
    words = kind.replace("_", " ")
    name = words if words == severity else f"{severity}, {words}"
    heading = element("h3", element("span", name, class_=_KINDS[severity]), f": {counted(len(found), 'finding')}")
    is_told = any(each.at_start for each in found)
    rows = (
        (
            Cell("name", each.path or NONE),
            Cell("words", each.reason),
            *([Cell("words", each.at_start or NONE)] if is_told else []),
            number_text(each.position),
            number_text(each.offset),
        )
        for each in found
    )
    return joined(
        [
            heading,
            element("p", prose(_step(found[0], report.store))),
            table(
                f"Where: {name}",
                ("File", "What", *(["A broker that starts"] if is_told else []), "Position", "Offset"),
                rows,
                numbers_from=4 if is_told else 3,
                rows_max=_OF_KIND_MAX,
                count=len(found),
            ),
        ]
    )


def _step(finding: FindingFacts, store: str) -> str:
    """Return the next step, with the store's name and the finding's partition in its command."""
    topic, _, number = finding.path.partition("/")[0].rpartition("-")
    step = finding.next_step.replace("STORE", shlex.quote(store))
    return step.replace("TOPIC/PARTITION", f"{topic}/{number}") if topic else step


def about(report: Report) -> Markup:
    """Say how the page was made, what is sampled, and what is missing."""
    items = list(_about(report))
    missing = (
        element("ul", *(element("li", each) for each in report.shortcomings[:50])) if report.shortcomings else NOTHING
    )
    heading = element("h3", "What is missing") if report.shortcomings else NOTHING
    more = len(report.shortcomings) - 50
    return joined(
        [
            element("ul", *(element("li", prose(each)) for each in items)),
            heading,
            missing,
            element("p", f"And {counted(more, 'more of these')}.") if more > 0 else NOTHING,
        ]
    )


def _about(report: Report) -> Iterator[str]:
    yield (
        f"Made at {time_text(report.made_ms)} UTC by kafkafs {report.version}, which changed nothing in the store. "
        "Each log is shown up to its end, not up to the high watermark."
    )
    if report.is_full:
        yield "Everything was read: every checksum was checked, every batch decompressed, every key counted."
    else:
        yield (
            "Sizes, offsets, times and what is next come from headers and indexes. Codecs, gains and keys are "
            f"sampled: {counted(report.sampled_batches, 'batch', 'batches')} looked into, evenly over each log."
        )
        yield "Offsets stand in for records: a compacted log has fewer, and markers of transactions are none."
        yield "`kafkafs report --full` reads everything; `kafkafs report --json` has the same as data."
    yield "The page needs no network, no script and no other file."
