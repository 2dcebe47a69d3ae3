"""Why a store cannot be mounted or unmounted, in one sentence that says what to do."""

from __future__ import annotations


class MountError(Exception):
    """The root, and the only one: the sentence is for people."""
