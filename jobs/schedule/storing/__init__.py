"""Schedules, their runs and their hosts as they are stored, and every change of them."""
