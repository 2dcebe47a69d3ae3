"""A store as it grows: what `kafkafs top` shows of its topics and partitions, on a terminal or in lines.

reading      one look at every partition, and how fast each has grown since the look before
next_freed   what retention frees next of a log, and when
rows         the rows of topics and partitions, their order and their fields
table        rows as lines of text, fitted to a width
detail       one partition: its segments with what becomes of each, its groups
pages        what the screen shows: which page, which rows, what a key does; without a terminal
screen       the terminal itself, which is left as it was found
"""
