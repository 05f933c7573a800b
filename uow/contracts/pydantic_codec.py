"""Pydantic models and dataclasses: written and read by pydantic itself. Imported for such classes only."""

from typing import Any, Final, get_args

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core.core_schema import ErrorType

from uow.contracts.error import (
    ContractDefinitionError,
    DecodeError,
    MalformedPayloadError,
    PayloadFieldError,
)
from uow.contracts.fidelity import Fault
from uow.contracts.reading import read_safely, reading_error, safe_path
from uow.contracts.schema import IDENTITY_TYPES, check_identity_type, names_in_pydantic, pydantic_fields
from uow.contracts.set_order import declares_sets, with_ordered_sets

_KNOWN: Final = frozenset(get_args(ErrorType))
_BY_THE_CLASS: Final = frozenset({"value_error", "assertion_error"})


class PydanticCodec:
    """Writes and reads the events of one pydantic model or pydantic dataclass."""

    def __init__(self, event_type: type) -> None:
        name = event_type.__qualname__
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(event_type)
        except PydanticUserError as error:
            if error.code == "class-not-fully-defined":
                raise NameError(error.message) from error
            raise ContractDefinitionError(f"{name} cannot be read from JSON: {error.message}") from error
        self.names = names_in_pydantic(event_type)
        self._has_sets = declares_sets(event_type)
        for field, declared in pydantic_fields(event_type).items():
            check_identity_type(name, field, declared.annotation)
            if field in IDENTITY_TYPES and (
                declared.alias or declared.validation_alias or declared.serialization_alias
            ):
                raise ContractDefinitionError(f"{name}.{field} must not have an alias")

    def write(self, event: Any) -> bytes:
        """JSON in UTF-8."""
        body = self._adapter.dump_json(event, by_alias=True, round_trip=True, warnings=False)
        return with_ordered_sets(event, body) if self._has_sets else body

    def find_formless(self, event: Any) -> Fault | None:
        """None: pydantic's own error names the field."""

    def read(self, contract: str, payload: str | bytes) -> Any:
        """An event of the class; strictly: a number sent as text is wrong, as it is for dataclasses."""
        return read_safely(
            lambda: self._adapter.validate_json(payload, strict=True),
            lambda error: self._error(contract, error),
        )

    def _error(self, contract: str, error: Exception) -> DecodeError:
        if not isinstance(error, ValidationError):
            return reading_error(contract, error, self.names)
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = safe_path(
            "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]), self.names
        )
        match first["type"]:
            case "json_invalid":
                return MalformedPayloadError(f"{contract}: the payload is not valid JSON")
            case "missing":
                return PayloadFieldError(contract, path, "is missing")
            case kind if kind in _KNOWN - _BY_THE_CLASS:
                return PayloadFieldError(contract, path, f"is wrong ({kind})")
        return PayloadFieldError(contract, path, "was refused by the event class")
