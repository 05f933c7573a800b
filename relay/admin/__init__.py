"""What operators see and do: failed messages, dead queues, numbers, and the record of every operation."""
