"""A small store to look around in, as a shop would have it, and a tour of what kafkafs shows of it.

What is in it is the same every time, but for the times: they are of the day that ends when it is made.
"""
