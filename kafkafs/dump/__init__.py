"""What a broker's files hold, as text that kafka-dump-log would print, or as JSON."""
