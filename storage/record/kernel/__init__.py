"""The hot loops, compiled: walking, decoding, encoding, and filling columns.

Nothing here decides anything or touches a file: callers pass buffers, get plain values, and every length read
from disk is checked against the buffer before it is used.
"""
