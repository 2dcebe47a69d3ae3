"""Recovering a log: from what a crash left in its directory to what a closed log has there."""
