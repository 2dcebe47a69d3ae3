"""Ranges of logs cut into pieces that many processes read at once."""
