"""The README's picture shows what the demo prints."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from mounts import require_fuse

pytestmark = pytest.mark.e2e

PICTURE = Path(__file__).parents[2] / "scripts" / "picture"


def test_the_picture_is_of_what_the_session_prints() -> None:
    require_fuse()
    checked = subprocess.run([PICTURE, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
