"""What the screen shows, and what a key does: pages of topics, of partitions, and of one partition; without a terminal.

The chosen row stays chosen while the order of rows changes.
"""

from __future__ import annotations

from enum import Enum
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from kafkafs.locator.times import Instant
from kafkafs.plain_text import columns_of, fitted, one_line
from kafkafs.top.detail import detail_lines
from kafkafs.top.rows import Key, partition_rows, sorted_rows, topic_rows, total_row
from kafkafs.top.table import OF_PARTITIONS, OF_TOPICS, Line, Style, summary_lines, table_lines

if TYPE_CHECKING:
    from kafkafs.top.detail import Detail
    from kafkafs.top.reading import Reading
    from kafkafs.top.rows import Row
    from storage.log_dir import Partition

INTERVAL_S_MIN: Final = 0.5
INTERVAL_S_MAX: Final = 60.0
_ENDS: Final = frozenset({"escape", "left", "backspace"})
_KEYS: Final = {
    "b": Key.RATE,
    "r": Key.RECORDS,
    "s": Key.SIZE,
    "l": Key.LAG,
    "o": Key.OLDEST,
    "f": Key.FREED,
    "n": Key.NAME,
}
_HELP: Final = (
    ("arrows, j k", "choose a row; PgUp, PgDn, Home, End go further"),
    ("Enter", "the partitions of a topic; of a partition, what becomes of it"),
    ("Esc, Left", "back"),
    ("p", "all partitions in one list, or topics again"),
    ("/", "type what names have to have; Enter keeps it, Esc ends it"),
    ("b r s l o f n", "sort by bytes/s, records/s, size, lag, oldest, freed, name"),
    ("", "the same key again turns the order round"),
    ("space", "pause, or go on"),
    ("+ -", "look less often, or more often"),
    ("q", "leave"),
)


class Wish(Enum):
    """What a key asks for besides another page."""

    LEAVE = "leave"
    READ = "read"  # at once


class Pages:
    """The pages of a store, and which of them is shown. `interval_s` and `is_paused` are the user's as well."""

    def __init__(self, store: str, interval_s: float, key: Key, *, lists_partitions: bool = False) -> None:
        self.interval_s = interval_s
        self.is_paused = False
        self.detailed: Partition | None = None  # whose page is shown
        self._store = store
        self._key = key
        self._is_reversed = False
        self._topic: str | None = None  # whose partitions are listed
        self._lists_partitions = lists_partitions
        self._filter = ""
        self._is_typing = False
        self._shows_help = False
        self._chosen: tuple[str, int | None] | None = None
        self._first = 0  # the row, or the line, at the top
        self._room = 1  # for so many rows
        self._reading: Reading | None = None
        self._total: Row | None = None
        self._detail: Detail | None = None
        self._progress = (0, 0)
        self._noted = ""
        self._listed: tuple[object, list[Row]] | None = None

    def take(self, reading: Reading, detail: Detail | None) -> None:
        """Show this from now on."""
        if reading is not self._reading:
            self._total = total_row(reading)
        self._reading, self._detail = reading, detail

    def take_progress(self, done: int, total: int) -> None:
        """Show how far the first look is."""
        self._progress = (done, total)

    def note(self, message: str) -> None:
        """Show a message until a key is pressed: the first one, as the cause of those that follow."""
        self._noted = self._noted or message

    # Keys

    def press(self, key: str) -> Wish | None:
        """Do what a key means: a character, or the name of another key."""
        self._noted = ""
        if self._is_typing:
            self._type(key)
        elif key == "q":
            return Wish.LEAVE
        elif self._shows_help or key in {"?", "h"}:
            self._shows_help = not self._shows_help
        elif key == "/":
            self._is_typing = True
        elif key == " ":
            self.is_paused = not self.is_paused
            return None if self.is_paused else Wish.READ
        elif key in _KEYS or key in {"+", "-"}:
            self._set(key)
        elif key in {"enter", "right"}:
            return self._open()
        else:
            self._go(key)
        return None

    def _set(self, key: str) -> None:
        """Set the order of rows, or the interval."""
        if key in _KEYS:
            self._is_reversed = not self._is_reversed if self._key is _KEYS[key] else False
            self._key = _KEYS[key]
        else:
            longer = self.interval_s * 2 if key == "+" else self.interval_s / 2
            self.interval_s = min(max(longer, INTERVAL_S_MIN), INTERVAL_S_MAX)

    def _go(self, key: str) -> None:
        """Go back, to the list of all partitions, or to another row."""
        if key == "p":
            self._list(None, partitions=not self._lists_partitions)
        elif key in _ENDS:
            self._back()
        else:
            self._move(key)

    def _type(self, key: str) -> None:
        if key in {"enter", "escape"}:
            self._is_typing = False
        if key == "escape":
            self._filter = ""
        elif key == "backspace":
            self._filter = self._filter[:-1]
        elif len(key) == 1 and key.isprintable():
            self._filter += key

    def _list(self, topic: str | None, *, partitions: bool = False) -> None:
        self._topic, self._lists_partitions, self.detailed = topic, partitions, None
        self._chosen, self._first = None, 0

    def _open(self) -> Wish | None:
        rows = self._rows()
        if self.detailed is not None or not rows:
            return None
        row = rows[self._at(rows)]
        if row.partition is None:
            self._list(row.topic)
            self._filter = ""
            return None
        self._chosen = (row.topic, row.partition)
        self.detailed, self._detail, self._first = (row.topic, row.partition), None, 0
        return Wish.READ

    def _back(self) -> None:
        if self.detailed is not None:
            self.detailed, self._first = None, 0
        elif self._topic is not None:
            topic = self._topic
            self._list(None)
            self._chosen = (topic, None)
        else:
            self._filter = ""

    def _move(self, key: str) -> None:
        by = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -self._room, "pagedown": self._room}.get(key)
        if self.detailed is not None:
            self._first = 0 if key == "home" else max(self._first + (by or 0), 0)
            return
        rows = self._rows()
        if not rows or (by is None and key not in {"home", "end"}):
            return
        at = self._at(rows) + by if by is not None else {"home": 0, "end": len(rows) - 1}[key]
        row = rows[min(max(at, 0), len(rows) - 1)]
        self._chosen = (row.topic, row.partition)

    # Lines

    def lines(self, width: int, height: int) -> list[Line]:
        """Return so many lines at most, each no wider than that."""
        body = self._body(width, max(height - 4, 1))
        whole = [*self._head(width), *body]
        whole = whole[: max(height - 1, 0)]
        whole += [Line("")] * (height - 1 - len(whole))
        return [Line(_cut(line.text, width), line.style) for line in [*whole, self._foot()][:height]]

    def _head(self, width: int) -> list[Line]:
        place = f"kafkafs top  {one_line(self._store)}"
        reading, total = self._reading, self._total
        if reading is None or total is None:
            return [Line(place, Style.TITLE), Line(""), Line("")]
        clock = str(Instant(reading.now_ms))[11:19]
        when = f"{clock}Z, paused" if self.is_paused else f"{clock}Z, every {self.interval_s:g}s"
        title = fitted(place, max(width - len(when) - 2, 0)) + f"  {when}"
        figures, note = summary_lines(reading, total)
        if self._noted:
            note = Line(f"! {one_line(self._noted)}", Style.BAD)
        return [Line(title, Style.TITLE), figures, note]

    def _body(self, width: int, room: int) -> list[Line]:
        if self._shows_help:
            return [Line(f"{keys:<16}{what}") for keys, what in _HELP]
        if self._reading is None:
            done, total = self._progress
            return [Line(f"reading {done} of {total} partitions" if total else "reading the store", Style.QUIET)]
        if self.detailed is not None:
            return self._detail_body(width, room)
        rows = self._rows()
        self._room = max(room - 1, 1)
        if not rows:
            is_filtered = bool(self._filter) and bool(self._reading.partitions)
            return [Line(f"no name has {self._filter!r}" if is_filtered else "there are no topics", Style.QUIET)]
        at = self._at(rows)
        self._first = min(max(self._first, at - self._room + 1), at)
        self._first = max(min(self._first, len(rows) - self._room), 0)
        columns = OF_PARTITIONS if self._topic is not None or self._lists_partitions else OF_TOPICS
        shown = table_lines(rows[self._first : self._first + self._room], columns, width)
        chosen = shown[at - self._first + 1]
        shown[at - self._first + 1] = Line(fitted(chosen.text, width), Style.CHOSEN)
        return shown

    def _detail_body(self, width: int, room: int) -> list[Line]:
        assert self._reading is not None
        assert self.detailed is not None
        topic, partition = self.detailed
        found = next((row for row in partition_rows(self._reading, topic) if row.partition == partition), None)
        name = Line(one_line(f"{topic}-{partition}"), Style.HEADER)
        self._room = max(room - 1, 1)
        if found is None:
            return [name, Line("it is gone", Style.QUIET)]
        detail = self._detail
        if detail is None or (detail.topic, detail.partition) != self.detailed:
            return [name, Line("reading it", Style.QUIET)]
        told = [
            Line(text, line.style)
            for line in detail_lines(found, detail)
            for text in wrap(line.text, max(width, 20), subsequent_indent="  ", drop_whitespace=False) or [""]
        ]
        self._first = min(self._first, max(len(told) - self._room, 0))
        return [name, *told[self._first : self._first + self._room]]

    def _foot(self) -> Line:
        if self._is_typing:
            return Line(f"/{one_line(self._filter)}_", Style.TITLE)
        way = " (reversed)" if self._is_reversed else ""
        shown = f"; with {one_line(self._filter)!r}" if self._filter else ""
        return Line(f"by {self._key.value}{way}{shown}   q leave  Enter open  Esc back  / filter  ? keys", Style.QUIET)

    def _rows(self) -> list[Row]:
        """Return the rows of this page, in their order."""
        if self._reading is None:
            return []
        of_topics = self._topic is None and not self._lists_partitions
        asked = (self._reading, of_topics, self._topic, self._filter, self._key, self._is_reversed)
        if self._listed is None or not _is_same(self._listed[0], asked):
            rows = topic_rows(self._reading) if of_topics else partition_rows(self._reading, self._topic)
            fitting = [row for row in rows if self._filter.lower() in row.name.lower()]
            self._listed = (asked, sorted_rows(fitting, self._key, is_reversed=self._is_reversed))
        return self._listed[1]

    def _at(self, rows: list[Row]) -> int:
        """Return which of these rows is chosen: the first, until another one was."""
        places = (at for at, row in enumerate(rows) if (row.topic, row.partition) == self._chosen)
        return next(places, 0)


def _is_same(one: object, other: tuple[object, ...]) -> bool:
    return isinstance(one, tuple) and one[0] is other[0] and one[1:] == other[1:]


def _cut(text: str, width: int) -> str:
    return text if columns_of(text) <= width else fitted(text, width)
