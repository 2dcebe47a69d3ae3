"""What a reader does at damage: the choice that a mount, the command line and Spark's source offer.

It stands by itself because the tree and the source may not import one another.
"""

from __future__ import annotations

from enum import Enum


class Damage(Enum):
    """What a reader does at a batch that cannot be decoded."""

    STOP = "stop"  # fail there, and return everything before it
    SKIP = "skip"  # leave it out, and count it or say so
