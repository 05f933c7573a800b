"""Publishing: what the outbox holds goes to the broker or to the inbox, confirmed and settled."""
