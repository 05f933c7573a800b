"""Schedules: when a job is due again, by cron or by interval."""
