"""What tests need that act as another user, as only root can.

    mounted.run(f"exec {SETPRIV} cat orders/0/values")

The fixture `scratch` is a directory that every user gets to, as no user but one gets to those of pytest.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY: Final = 65534
"""A user, and a group, that no file belongs to."""

SETPRIV: Final = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
"""The beginning of a shell's command that is run as that user."""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Make the directory."""
    if os.geteuid() != 0:
        pytest.skip("not root, who alone can be another user")
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)
