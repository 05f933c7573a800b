"""The states of an outbox row and the moves between them."""

from enum import StrEnum
from typing import Final


class OutboxState(StrEnum):
    """Where an event stands between the commit that stored it and the broker's confirm."""

    PENDING = "pending"
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    DEAD_LETTERED = "dead_lettered"
    DISCARDED = "discarded"


TRANSITIONS: Final[dict[OutboxState, frozenset[OutboxState]]] = {
    OutboxState.PENDING: frozenset({OutboxState.PUBLISHING, OutboxState.PENDING}),
    OutboxState.PUBLISHING: frozenset(
        {
            OutboxState.PUBLISHING,
            OutboxState.PENDING,
            OutboxState.PUBLISHED,
            OutboxState.DEAD_LETTERED,
        }
    ),
    OutboxState.PUBLISHED: frozenset({OutboxState.PENDING}),
    OutboxState.DEAD_LETTERED: frozenset({OutboxState.PENDING, OutboxState.DISCARDED}),
    OutboxState.DISCARDED: frozenset({OutboxState.PENDING}),
}
"""Allowed moves. PUBLISHED -> PENDING and DISCARDED -> PENDING are an inbox replay that schedules the
original event again; PENDING -> PENDING is the same for an event that still waits, or a row put off
because an earlier one holds its ordering key. PUBLISHING -> PUBLISHING is a take-over of a lease that
ran out."""

UNFINISHED: Final = (OutboxState.PENDING, OutboxState.PUBLISHING)
"""The relay still has work with these."""

HOLDS_ITS_KEY: Final = (OutboxState.PENDING, OutboxState.PUBLISHING, OutboxState.DEAD_LETTERED)
"""A row in one of these holds back later rows with the same ordering key."""
