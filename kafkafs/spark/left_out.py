"""What tasks leave out with `damage=skip`: each place in their log, and in a file of its own that the driver counts.

Spark gives a task that reads no way to tell the driver anything but rows. So the option `damageDirectory` names a
directory that all of them see. A file there is named for a place in the store: a repeated task adds nothing.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from storage.files import NamedFiles, replace_file

if TYPE_CHECKING:
    from storage.errors import CorruptBatchError

logger = logging.getLogger(__name__)

_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The damaged places that were left out; without a directory they are in the tasks' logs alone."""

    directory: str | None

    def add(self, damage: CorruptBatchError) -> None:
        """Note a place, in a task; an error if the directory is not there."""
        logger.warning("left out: %s", damage)
        if self.directory is None or damage.path is None:
            return
        path = Path(damage.path)
        name = f"{path.parent.name}-{path.stem}-{damage.position}{_SUFFIX}"
        place = {"path": damage.path, "position": damage.position, "offset": damage.offset, "reason": damage.reason}
        replace_file(NamedFiles(), f"{self.directory}/{name}", json.dumps(place).encode() + b"\n", sync=False)

    def begin(self) -> int:
        """Make the directory, on the driver, and return how many places are in it."""
        if self.directory is None:
            return 0
        Path(self.directory).mkdir(parents=True, exist_ok=True)
        return self.count()

    def count(self) -> int:
        """Return how many places are in the directory."""
        if self.directory is None:
            return 0
        return sum(name.endswith(_SUFFIX) for name in NamedFiles().names(self.directory))
