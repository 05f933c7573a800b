"""What every loop stands on: supervision, bounded steps, polling, wake-ups and lease renewal."""
