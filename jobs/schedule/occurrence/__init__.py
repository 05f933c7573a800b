"""When a schedule is due: cron on the wall clock of a zone, intervals, and clock changes."""
