"""When a store's logs were written: bytes and records by buckets of time, in bounded memory.

What is known of a part of a log is when it begins and ends, so its bytes are spread evenly between. Timestamps are
producers', and may be anything: those that cannot be right would leave no room for the others, and do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
DAY_STEP_MS: Final = 15 * MINUTE_MS
_STEPS_MS: Final = (
    *(minutes * MINUTE_MS for minutes in (1, 5, 15, 30)),
    *(hours * HOUR_MS for hours in (1, 3, 6, 12)),
    *(days * DAY_MS for days in (1, 2, 7, 14, 28, 84, 364)),
)
_SHOWN_MAX: Final = 100
_KEPT_MAX: Final = 1000
_PAST_MS: Final = 20 * 365 * DAY_MS
_FUTURE_MS: Final = DAY_MS


class Written(NamedTuple):
    """A part of a log that was written between two times."""

    first_ms: int
    last_ms: int
    size_bytes: int
    records: int


class Bucket(NamedTuple):
    """What was written from a time on, for so long."""

    start_timestamp: int
    span_ms: int
    size_bytes: int
    records: int


class Timeline:
    """The buckets of all times; their span grows as there are more of them."""

    def __init__(self) -> None:
        self._step = 0
        self._buckets: dict[int, list[float]] = {}

    def add(self, written: Written) -> None:
        """Spread a part over the buckets between its times."""
        while (written.last_ms - written.first_ms) // self._step_ms > _KEPT_MAX:
            self._widen()
        spread(self._buckets, written, self._step_ms)
        while len(self._buckets) > _KEPT_MAX:
            self._widen()

    def buckets(self) -> tuple[Bucket, ...]:
        """Return a hundred buckets or fewer without a gap."""
        while self._buckets and max(self._buckets) - min(self._buckets) >= _SHOWN_MAX and self._is_widened():
            pass
        return tuple(_filled(self._buckets, self._step_ms))

    @property
    def _step_ms(self) -> int:
        return _STEPS_MS[self._step]

    def _is_widened(self) -> bool:
        if self._step + 1 == len(_STEPS_MS):
            return False
        self._widen()
        return True

    def _widen(self) -> None:
        before_ms = self._step_ms
        self._step += 1
        buckets: dict[int, list[float]] = {}
        for number, (size_bytes, records) in self._buckets.items():
            bucket = buckets.setdefault(number * before_ms // self._step_ms, [0, 0])
            bucket[0] += size_bytes
            bucket[1] += records
        self._buckets = buckets


class NewestDay:
    """The buckets of the last day before the newest time, and what each topic was given in that day."""

    def __init__(self, now_ms: int) -> None:
        self.newest_ms: int | None = None
        self.doubtful_segments = 0
        self.growth = Timeline()
        self._credible = (now_ms - _PAST_MS, now_ms + _FUTURE_MS)
        self._buckets: dict[int, list[float]] = {}
        self._of_topics: dict[str, dict[int, list[float]]] = {}

    def add(self, topic: str, segments: Sequence[Sequence[Written]]) -> None:
        """Add the parts of a topic's segments."""
        earliest_ms, latest_ms = self._credible
        for parts in segments:
            if any(not earliest_ms <= part.first_ms <= part.last_ms <= latest_ms for part in parts):
                self.doubtful_segments += 1
                continue
            for part in parts:
                self._add(topic, part)

    def _add(self, topic: str, part: Written) -> None:
        self.growth.add(part)
        self.newest_ms = part.last_ms if self.newest_ms is None else max(self.newest_ms, part.last_ms)
        since_ms = self._since_ms
        if part.last_ms >= since_ms:
            for buckets in (self._buckets, self._of_topics.setdefault(topic, {})):
                spread(buckets, part, DAY_STEP_MS, since_ms)
                if len(buckets) > _KEPT_MAX:
                    for number in [each for each in buckets if each * DAY_STEP_MS < since_ms]:
                        del buckets[number]

    @property
    def _since_ms(self) -> int:
        """The beginning of the day, at the beginning of a bucket."""
        return ((self.newest_ms or 0) // DAY_STEP_MS + 1) * DAY_STEP_MS - DAY_MS

    def buckets(self) -> tuple[Bucket, ...]:
        """Return the buckets of the day, from its beginning to its end."""
        if self.newest_ms is None:
            return ()
        since = self._since_ms // DAY_STEP_MS
        day = {number: [0.0, 0.0] for number in range(since, since + DAY_MS // DAY_STEP_MS)}
        return tuple(_filled(day | _since(self._buckets, self._since_ms), DAY_STEP_MS))

    def of_topics(self) -> dict[str, tuple[int, int]]:
        """Return the bytes and records of the day by topic."""
        found = {}
        for topic, buckets in self._of_topics.items():
            day = _since(buckets, self._since_ms).values()
            if day:
                found[topic] = (round(sum(each[0] for each in day)), round(sum(each[1] for each in day)))
        return found


def spread(buckets: dict[int, list[float]], written: Written, step_ms: int, since_ms: int = 0) -> None:
    """Add a part to the buckets that its times touch, evenly by time; what is before `since_ms` is left out."""
    first_ms, last_ms, size_bytes, records = written
    begin_ms, span_ms = max(first_ms, since_ms), last_ms - first_ms
    low, high = begin_ms // step_ms, last_ms // step_ms
    for number in range(low, high + 1):
        share = 1.0
        if span_ms:
            within_ms = step_ms
            if number == low:
                within_ms -= begin_ms - low * step_ms
            if number == high:
                within_ms -= (high + 1) * step_ms - last_ms
            share = within_ms / span_ms
        bucket = buckets.get(number)
        if bucket is None:
            bucket = buckets[number] = [0.0, 0.0]
        bucket[0] += size_bytes * share
        bucket[1] += records * share


def _since(buckets: dict[int, list[float]], since_ms: int) -> dict[int, list[float]]:
    return {number: bucket for number, bucket in buckets.items() if number * DAY_STEP_MS >= since_ms}


def _filled(buckets: dict[int, list[float]], step_ms: int) -> Iterator[Bucket]:
    if not buckets:
        return
    for number in range(min(buckets), max(buckets) + 1):
        size_bytes, records = buckets.get(number, (0, 0))
        yield Bucket(number * step_ms, step_ms, round(size_bytes), round(records))
