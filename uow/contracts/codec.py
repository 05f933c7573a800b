"""How the events of one class are written and read."""

from typing import Any, Protocol

from uow.contracts.contract import is_pydantic_dataclass, is_pydantic_model
from uow.contracts.dataclass_codec import DataclassCodec
from uow.contracts.fidelity import Fault


class Codec(Protocol):
    """Writes and reads the events of one class."""

    @property
    def names(self) -> frozenset[str]:
        """All declared field names at any depth; only these may be shown in errors about a payload."""
        ...

    def write(self, event: Any) -> bytes:
        """JSON in UTF-8. Raises whatever the converter does; the caller finds out why."""
        ...

    def find_formless(self, event: Any) -> Fault | None:
        """The part of `event` for which `write` failed, when it can be named."""

    def read(self, contract: str, payload: str | bytes) -> Any:
        """An event. Raises DecodeError, without any text of the payload."""


def codec_for(event_type: type) -> Codec:
    """The codec for a class that passed `check_event_type`.

    Raises ContractDefinitionError for fields that cannot be read back, NameError while type names that its
    fields use are not defined yet.
    """
    if is_pydantic_model(event_type) or is_pydantic_dataclass(event_type):
        from uow.contracts.pydantic_codec import PydanticCodec  # noqa: PLC0415 - pydantic is optional

        return PydanticCodec(event_type)
    return DataclassCodec(event_type)
