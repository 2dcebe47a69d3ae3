"""What goes away of a log, and when: retention and compaction, each planned first and then applied."""
