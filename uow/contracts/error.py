"""What can be wrong with a contract, a value that is written, or a payload that is read."""

from uow.errors import FixTheCodeError, LookAtItError, SelfManagedError


class ContractError(SelfManagedError):
    """Root of everything about contracts. No message of it shows a payload that was read."""


class ContractDefinitionError(ContractError, FixTheCodeError):
    """A class, a version or an upcaster that cannot be registered; the message says what to change."""


class UnregisteredEventError(ContractError, FixTheCodeError):
    """An object or class that no contract was registered for; registration is the allow-list."""


class EncodeError(ContractError, FixTheCodeError):
    """An event that cannot be stored. Nothing was staged.

    path: where in the event (`lines[0].price`), empty for the event itself. kind: the name of the value's
    type. rule: what it broke.
    """

    def __init__(self, contract: str, path: str, kind: str, rule: str) -> None:
        super().__init__(f"{contract}: {path or 'the event'} ({kind}) {rule}")
        self.contract = contract
        self.path = path
        self.kind = kind
        self.rule = rule

    def __reduce__(self) -> tuple[type["EncodeError"], tuple[str, str, str, str]]:
        return type(self), (self.contract, self.path, self.kind, self.rule)


class ValueRefusedError(EncodeError):
    """A value that would not come back equal, or that no store may hold."""


class BodyTooLargeError(EncodeError):
    """The JSON text of the event has more UTF-8 bytes than allowed."""


class DecodeError(ContractError, LookAtItError):
    """A stored or received payload that cannot become an event. Never shows text of the payload."""


class MalformedPayloadError(DecodeError):
    """The payload is not a JSON object."""


class PayloadFieldError(DecodeError):
    """A field of the payload is missing or wrong.

    path: where, made of declared field names and list positions only. rule: what it broke.
    """

    def __init__(self, contract: str, path: str, rule: str) -> None:
        super().__init__(f"{contract}: {path or 'the payload'} {rule}")
        self.contract = contract
        self.path = path
        self.rule = rule

    def __reduce__(self) -> tuple[type["PayloadFieldError"], tuple[str, str, str]]:
        return type(self), (self.contract, self.path, self.rule)


class EnvelopeMismatchError(DecodeError):
    """`id` or `occurred_at` differs between the envelope and the payload; `field` says which."""

    def __init__(self, contract: str, field: str) -> None:
        super().__init__(f"{contract}: {field} differs between the envelope and the payload")
        self.contract = contract
        self.field = field

    def __reduce__(self) -> tuple[type["EnvelopeMismatchError"], tuple[str, str]]:
        return type(self), (self.contract, self.field)


class UnknownContractError(DecodeError):
    """The contract name is not registered in this application."""


class UnknownVersionError(DecodeError):
    """The name is registered, but this version has neither a class nor an upcaster to one."""


class UpcastError(DecodeError):
    """An upcaster failed or gave something that is not a JSON object."""
