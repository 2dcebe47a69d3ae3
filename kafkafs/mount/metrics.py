"""The metrics of a mount, as Prometheus reads them.

Each name ends in its unit. Only the event loop's thread may count; any thread may ask for the text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BUCKETS_S: Final = (0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_BUCKETS_NS: Final = tuple(round(bound * 1e9) for bound in BUCKETS_S)


class _Latency:
    __slots__ = ("counts", "total_ns")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS_NS) + 1)
        self.total_ns = 0


class _Shown(NamedTuple):
    """Numbers by their labels, read when the text is made."""

    kind: str
    help_text: str
    values: Callable[[], Mapping[str, float]]


class Metrics:
    """Counters, gauges and histograms of one mount."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.written_bytes = 0
        self._latencies: defaultdict[str, _Latency] = defaultdict(_Latency)
        self._errors: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._shown: dict[str, _Shown] = {}

    def answered(self, operation: str, taken_ns: int) -> None:
        """Count a request and how long it took."""
        latency = self._latencies[operation]
        latency.counts[bisect_left(_BUCKETS_NS, taken_ns)] += 1
        latency.total_ns += taken_ns

    def failed(self, operation: str, error: str) -> None:
        """Count a request that was answered with an error, by the error's name, such as `ENOENT`."""
        self._errors[operation, error] += 1

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a number that is read when the text is made; its name ends in its unit."""
        self._shown[name] = _Shown("gauge", help_text, lambda: {"": value()})

    def counter(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Show a number that only grows."""
        self._shown[name] = _Shown("counter", help_text, lambda: {"": value()})

    def by_label(self, name: str, help_text: str, label: str, values: Callable[[], Mapping[str, float]]) -> None:
        """Show numbers that only grow, by label."""
        self._shown[name] = _Shown(
            "counter", help_text, lambda: {f'{{{label}="{key}"}}': value for key, value in values().items()}
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return "\n".join([*self._lines(), ""]).encode()

    def _lines(self) -> Iterator[str]:
        yield from _head("kafkafs_requests_total", "counter", "Requests of the kernel that were answered.")
        latencies = sorted(self._latencies.items())
        for operation, latency in latencies:
            yield f'kafkafs_requests_total{{operation="{operation}"}} {sum(latency.counts)}'
        yield from _head("kafkafs_request_errors_total", "counter", "Requests that were answered with an error.")
        for (operation, error), count in sorted(self._errors.items()):
            yield f'kafkafs_request_errors_total{{operation="{operation}",errno="{error}"}} {count}'
        yield from _head("kafkafs_read_bytes_total", "counter", "Bytes that were read from files.")
        yield f"kafkafs_read_bytes_total {self.read_bytes}"
        yield from _head("kafkafs_written_bytes_total", "counter", "Bytes that were written to files and taken.")
        yield f"kafkafs_written_bytes_total {self.written_bytes}"
        for name, (kind, help_text, values) in sorted(self._shown.items()):
            yield from _head(name, kind, help_text)
            for labels, value in values().items():
                yield f"{name}{labels} {value:.17g}"
        yield from _head("kafkafs_request_duration_seconds", "histogram", "How long requests took to be answered.")
        for operation, latency in latencies:
            yield from _histogram("kafkafs_request_duration_seconds", operation, latency)


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _histogram(name: str, operation: str, latency: _Latency) -> Iterator[str]:
    total = 0
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), latency.counts, strict=True):
        total += count
        yield f'{name}_bucket{{operation="{operation}",le="{bound}"}} {total}'
    yield f'{name}_sum{{operation="{operation}"}} {latency.total_ns / 1e9:.9f}'
    yield f'{name}_count{{operation="{operation}"}} {total}'
