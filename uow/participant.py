"""How a package writes inside someone else's commit."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Something that a unit of work will write just before COMMIT.

    key: its identity within the participant (an event id, a job's scope and id).
    content: what must be equal when the same key is staged again.
    value: what the participant needs to write it; already serialized, so later mutation changes nothing.
    """

    key: Hashable
    content: Hashable
    value: Any


class Participant(Protocol):
    """A package that stages things in a unit of work and writes them in its transaction.

    Order for one commit: `stage` any number of times, one `write`, COMMIT, one `committed`.
    After a rollback nothing is called. One instance serves many units at once; it keeps no state of them.
    """

    def accepts(self, item: object) -> bool:
        """Whether this participant is the one that stages `item`."""
        ...

    def stage(self, item: Any, **options: Any) -> Staged:
        """Check and serialize `item` now; no I/O. Raises the participant's own errors naming the field."""
        ...

    def conflict(self, staged: Staged, earlier: Staged) -> Exception:
        """The error for two staged things with one key and different content."""
        ...

    def write(self, connection: Connection, staged: Sequence[Staged]) -> str | None:
        """Write all in a constant number of statements; called once, just before COMMIT.

        Returns the database's transaction id when an insert could ask for it on its way (else None).
        Raises a conflict error when a stored thing has the same key and other content.
        """
        ...

    def committed(self, staged: Sequence[Staged]) -> None:
        """Told after COMMIT, for wake-ups and counters. What it raises is logged and changes nothing."""
        ...
