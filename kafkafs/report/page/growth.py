"""The section of the page on growth and rates."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from kafkafs.report.page.charts import Chart, chart
from kafkafs.report.page.markup import Markup, element, joined
from kafkafs.report.page.words import bytes_text, counted, rate_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkafs.report.facts import Report
    from kafkafs.report.timeline import Bucket


def growth(report: Report) -> Markup:
    """Draw how the store has grown, and its rates in the newest day."""
    if not report.growth:
        return element("p", "No record has a time from which a chart could be drawn.")
    kept = list(accumulate(bucket.size_bytes for bucket in report.growth))
    grown = Chart(
        "Bytes in the store, by when they were written",
        f"{bytes_text(kept[-1])} of what is kept were written until the newest record. What was deleted is not in it.",
        bytes_text,
        is_area=True,
    )
    what = "Records" if report.is_full else "Offsets"
    return joined(
        [
            element("p", _of_times(report), class_="quiet"),
            _drawn(grown, report.growth, kept),
            _rates("Bytes", report.day, [bucket.size_bytes for bucket in report.day], bytes_text),
            _rates(what, report.day, [bucket.records for bucket in report.day], lambda value: rate_text(value, 1000)),
        ]
    )


def _rates(what: str, buckets: Sequence[Bucket], amounts: Sequence[int], amount_text: Callable[[float], str]) -> Markup:
    def value_text(value: float) -> str:
        return f"{amount_text(value)}/s"

    rates = [1000 * amount / bucket.span_ms for amount, bucket in zip(amounts, buckets, strict=True)]
    mean, most = sum(rates) / len(rates), max(rates)
    said = f"{value_text(mean)} on average, {value_text(most)} at most."
    return _drawn(Chart(f"{what} per second in the newest day", said, value_text), buckets, rates)


def _drawn(drawn: Chart, buckets: Sequence[Bucket], values: Sequence[float]) -> Markup:
    last = buckets[-1]
    times = [bucket.start_timestamp for bucket in buckets]
    return chart(drawn, times, last.start_timestamp + last.span_ms, values)


def _of_times(report: Report) -> str:
    how = "the headers of all batches" if report.is_full else "the entries of time indexes, and evenly between them"
    doubt = ""
    if report.doubtful_segments:
        doubt = f" {counted(report.doubtful_segments, 'segment')} with timestamps that cannot be right are left out."
    return f"Times are those of records, in UTC, by {how}.{doubt}"
