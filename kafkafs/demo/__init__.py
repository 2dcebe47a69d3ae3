"""A small store to look around in, as a shop would have it, and a tour of what kafkafs shows of it.

Its records are the same every time, except for their times: they are of the 24 hours before it is made.
"""
