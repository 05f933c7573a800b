"""A bounded piece of a long source, and what became of all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from uow.errors import FixTheCodeError

Item = TypeVar("Item")


class SourceError(FixTheCodeError):
    """A source broke its rules; the batch was not applied and the cursor stays."""


@dataclass(frozen=True, slots=True)
class Batch(Generic[Item]):
    """What a source gave: the items, and the position behind the last of them.

    position: see `write_position`; None says that the source is at its end, and then there are no items.
    Without items a position says that there was nothing of interest up to there.
    """

    items: Sequence[Item] = ()
    position: Any = None

    @classmethod
    def of(cls, items: Sequence[Item], position: Callable[[Item], Any]) -> "Batch[Item]":
        """The batch of these items in their order; `position` tells that of an item, here of the last.

        Positions must be different for different items and grow in the order in which the source reads.
        """
        return cls(items, position(items[-1])) if items else cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one run has done: batches and items that are committed, the last position (None: none yet).

    finished: whether the source is at its end; False after a stop.
    """

    batches: int
    items: int
    position: Any
    finished: bool
