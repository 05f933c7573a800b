"""What may be told about a message in a dead queue."""

from collections.abc import Mapping
from typing import Any, Final

from relay.broker import DeadDelivery
from relay.kombu_broker.arrival import DEAD_REASON_HEADER
from relay.wire_part import NAME_HEADER

_DEATHS: Final = "x-death"
_OF_ITS_DEATH: Final = ("x-death", "x-first-death-", "x-last-death-", "x-delivery-count", DEAD_REASON_HEADER)


def dead_delivery(
    position: int, consumer: str, body: bytes, headers: Mapping[str, Any], properties: Mapping[str, Any]
) -> DeadDelivery:
    """Metadata of one dead message; the payload only by its length."""
    return DeadDelivery(
        position=position,
        consumer=consumer,
        message_id=_text(properties.get("message_id")),
        contract_name=_text(headers.get(NAME_HEADER)),
        reason=_reason(headers),
        body_bytes=len(body),
    )


def without_death(headers: Mapping[str, Any]) -> dict[str, Any]:
    """The headers as they were before the message died."""
    return {name: value for name, value in headers.items() if not name.startswith(_OF_ITS_DEATH)}


def _reason(headers: Mapping[str, Any]) -> str | None:
    deaths = headers.get(_DEATHS)
    if isinstance(deaths, list) and deaths and isinstance(deaths[0], Mapping):
        return _text(deaths[0].get("reason"))
    return _text(headers.get(DEAD_REASON_HEADER))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
