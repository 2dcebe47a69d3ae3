"""Numbers in names: decimal ASCII digits, for what Kafka counts in 64 bits with a sign.

Leading zeros count for nothing, as in the names of segments, whose twenty digits are the most that there can be. There
is no sign; one that stands before a number belongs to what the number is part of.
"""

from __future__ import annotations

from typing import Final

NUMBER_MAX: Final = 2**63 - 1
DIGITS: Final = "[0-9]{1,20}"
"""A pattern of what may be a number; `NUMBER_MAX` says whether it is one."""
