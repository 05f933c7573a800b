"""The default shape of an event: frozen, with an identity and the instant at which it occurred."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from uuid import UUID

from uuid_utils.compat import uuid7

from uow.ticks import UtcInstant


@runtime_checkable
class IntegrationEvent(Protocol):
    """What every event has; dataclasses and pydantic models that have both fields qualify."""

    @property
    def id(self) -> UUID:
        """The identity of this event; the same identity is the same event, for ever."""
        ...

    @property
    def occurred_at(self) -> UtcInstant:
        """When it happened in the business, exact to 100 ns."""
        ...


@dataclass(frozen=True, kw_only=True)
class Event:
    """Derive your events from this: `id` is a new UUID version 7, `occurred_at` is now, unless given.

    Derived classes are dataclasses too: `@dataclass(frozen=True, kw_only=True)`.
    """

    id: UUID = field(default_factory=uuid7)
    occurred_at: UtcInstant = field(default_factory=UtcInstant.now)
