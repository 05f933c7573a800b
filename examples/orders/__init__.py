"""A small order service: orders are placed, billed and shipped by separate processes."""
