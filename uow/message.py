"""The frozen envelope that outbox, relay and inbox share."""

from dataclasses import dataclass, field
from uuid import UUID

from uow.ticks import UtcInstant


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One event in the form in which it is stored and sent; `payload` is its JSON text, made once
    (and kept out of `repr`, so that no log line shows it).

    The ordering key stays in the outbox of the sender; it is not on the wire.
    """

    id: UUID
    contract_name: str
    contract_version: int
    occurred_at: UtcInstant
    payload: str = field(repr=False)
    correlation_id: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    ordering_key: str | None = None

    @property
    def routing_key(self) -> str:
        """`{name}.v{version}`, the key by which brokers route this message."""
        return routing_key(self.contract_name, self.contract_version)

    def same_content(self, other: "Message") -> bool:
        """Whether both say the same; trace fields and the ordering key take no part."""
        return (
            self.contract_name == other.contract_name
            and self.contract_version == other.contract_version
            and self.occurred_at == other.occurred_at
            and self.payload == other.payload
        )


def routing_key(contract_name: str, contract_version: int) -> str:
    """`{name}.v{version}`."""
    return f"{contract_name}.v{contract_version}"
