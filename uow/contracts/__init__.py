"""Contracts: event class <-> name, version and JSON payload."""

from uow.contracts.contract import Contract
from uow.contracts.error import (
    BodyTooLargeError,
    ContractDefinitionError,
    ContractError,
    DecodeError,
    EncodeError,
    EnvelopeMismatchError,
    MalformedPayloadError,
    PayloadFieldError,
    UnknownContractError,
    UnknownVersionError,
    UnregisteredEventError,
    UpcastError,
    ValueRefusedError,
)
from uow.contracts.reading import check_identity
from uow.contracts.registry import MAXIMUM_BODY_BYTES, Contracts
from uow.contracts.upcasting import Upcaster

__all__ = [
    "MAXIMUM_BODY_BYTES",
    "BodyTooLargeError",
    "Contract",
    "ContractDefinitionError",
    "ContractError",
    "Contracts",
    "DecodeError",
    "EncodeError",
    "EnvelopeMismatchError",
    "MalformedPayloadError",
    "PayloadFieldError",
    "UnknownContractError",
    "UnknownVersionError",
    "UnregisteredEventError",
    "UpcastError",
    "Upcaster",
    "ValueRefusedError",
    "check_identity",
]
