"""Dataclasses: written by orjson, read by msgspec, strictly by their declared types."""

from typing import Any
from uuid import UUID

import msgspec

from uow.contracts.error import ContractDefinitionError
from uow.contracts.fidelity import Fault
from uow.contracts.json_text import find_formless, write_json
from uow.contracts.reading import read_safely, reading_error
from uow.contracts.schema import check_identity_type, names_in_dataclass
from uow.ticks import UtcInstant


class DataclassCodec:
    """Writes and reads the events of one dataclass."""

    def __init__(self, event_type: type) -> None:
        name = event_type.__qualname__
        try:
            self.names = names_in_dataclass(event_type)
            self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(event_type, dec_hook=_read_custom)
        except (TypeError, ValueError) as error:
            raise ContractDefinitionError(f"{name} cannot be read from JSON: {error}") from error
        _check_identity_types(event_type)

    def write(self, event: Any) -> bytes:
        """JSON in UTF-8."""
        return write_json(event)

    def find_formless(self, event: Any) -> Fault | None:
        """The part that has no JSON form."""
        return find_formless(event)

    def read(self, contract: str, payload: str | bytes) -> Any:
        """An event of the class."""
        return read_safely(
            lambda: self._decoder.decode(payload), lambda error: reading_error(contract, error, self.names)
        )


def _check_identity_types(event_type: type) -> None:
    declared = msgspec.inspect.type_info(event_type)
    assert isinstance(declared, msgspec.inspect.DataclassType)  # noqa: S101 - tells the type checker
    for field in declared.fields:
        kind = field.type
        while isinstance(kind, msgspec.inspect.Metadata):
            kind = kind.type
        match kind:
            case msgspec.inspect.UUIDType():
                found: object = UUID
            case msgspec.inspect.CustomType(cls=cls):
                found = cls
            case _:
                found = None
        check_identity_type(event_type.__qualname__, field.name, found)


def _read_custom(wanted: type, value: Any) -> Any:
    if wanted is not UtcInstant or not isinstance(value, str):
        raise ValueError(f"expected {wanted.__name__} as text")
    return UtcInstant.parse(value)
