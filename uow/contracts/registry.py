"""The contracts of an application: the allow-list of what it writes and reads."""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from uow.contracts.binding import Binding
from uow.contracts.contract import Contract, check_event_type, check_version
from uow.contracts.decoding import decode_message
from uow.contracts.encoding import encode_event
from uow.contracts.error import (
    ContractDefinitionError,
    UnknownContractError,
    UnknownVersionError,
    UnregisteredEventError,
)
from uow.contracts.upcasting import Upcaster, UpcasterGraph
from uow.message import Message, routing_key
from uow.text import check_contract_name, check_routing_key

_EventType = TypeVar("_EventType", bound=type)

MAXIMUM_BODY_BYTES: Final = 1_048_576
"""The default limit of an event's JSON text in UTF-8 bytes."""

OrderingKey = Callable[[Any], str | None]


class Contracts:
    """Event classes under their names and versions, and how older payloads become newer classes.

    Register everything while the program starts; then one instance serves all threads.
    """

    def __init__(self) -> None:
        self._by_type: dict[type, Binding] = {}
        self._by_name: dict[str, dict[int, Binding]] = {}
        self._upcasters: dict[str, UpcasterGraph] = {}

    def register(
        self, event_type: type, *, name: str, version: int, ordering_key: OrderingKey | None = None
    ) -> Contract:
        """Allow events of this class to be written, and payloads of this name and version to be read.

        event_type: a dataclass (derive it from `uow.event.Event`) or a pydantic model with the fields
        `id: UUID` and `occurred_at: UtcInstant`. name: at most 200 UTF-16 units, not blank, without `*`, `#`
        and control characters; `{name}.v{version}` under 255 UTF-8 bytes. version: 1 or more.
        ordering_key: gives the key within which events are published in order, or None.
        Raises ContractDefinitionError, or TextError for the name.
        """
        check_contract_name(name)
        check_version(version)
        check_routing_key(routing_key(name, version), "routing key {name}.v{version}")
        contract = Contract(
            name=name, version=version, event_type=check_event_type(event_type), ordering_key=ordering_key
        )
        if event_type in self._by_type:
            taken = self._by_type[event_type].contract
            raise ContractDefinitionError(
                f"{event_type.__qualname__} is registered already as {taken.routing_key}"
            )
        if version in self._by_name.get(name, {}):
            taken = self._by_name[name][version].contract
            raise ContractDefinitionError(
                f"{taken.routing_key} is registered already for {taken.event_type.__qualname__}"
            )
        binding = Binding(contract)
        binding.prepare()
        self._by_type[event_type] = binding
        self._by_name.setdefault(name, {})[version] = binding
        return contract

    def event(
        self, name: str, *, version: int, ordering_key: OrderingKey | None = None
    ) -> Callable[[_EventType], _EventType]:
        """`register` as a class decorator; put it above `@dataclass`."""

        def decorate(event_type: _EventType) -> _EventType:
            self.register(event_type, name=name, version=version, ordering_key=ordering_key)
            return event_type

        return decorate

    def upcast(self, *, name: str, from_version: int, to_version: int, upcaster: Upcaster) -> None:
        """Read payloads of `from_version` as those of the later `to_version`; the stored text stays.

        upcaster: takes the payload as a dict of its own and returns the newer one, with the same `id` and
        `occurred_at`. Upcasters chain; a payload becomes the newest registered class that they reach.
        Raises ContractDefinitionError.
        """
        check_contract_name(name)
        self._upcasters.setdefault(name, UpcasterGraph()).add(from_version, to_version, upcaster)

    def contract_of(self, event: object) -> Contract:
        """The contract of an event or an event class. Raises UnregisteredEventError."""
        return self._binding_of(event).contract

    def encode(self, event: object, *, maximum_body_bytes: int = MAXIMUM_BODY_BYTES) -> Message:
        """The message of `event`, without trace fields; no I/O. Mutating the event later changes nothing.

        Raises UnregisteredEventError, ValueRefusedError (naming path, kind and rule), BodyTooLargeError, or
        TextError for the ordering key.
        """
        if isinstance(event, type):
            raise UnregisteredEventError(f"give an instance of {event.__qualname__}, not the class")
        binding = self._binding_of(event)
        return encode_event(binding.contract, binding.codec, event, maximum_body_bytes=maximum_body_bytes)

    def decode(self, message: Message) -> Any:
        """The event of `message`, of the newest class that upcasters reach from its version.

        `id` and `occurred_at` are those of the envelope. Raises DecodeError, which never repeats the payload.
        """
        name = message.contract_name
        route = self._route(name, message.contract_version)
        binding = self._by_name[name][route[-1]]
        upcasters = self._upcasters.get(name, _NO_UPCASTERS)
        return decode_message(message, binding.codec, upcasters, route)

    def target_of(self, name: str, version: int) -> Contract:
        """The contract whose class a payload of this name and version is read as.

        Raises UnknownContractError or UnknownVersionError.
        """
        return self._by_name[name][self._route(name, version)[-1]].contract

    def source_versions(self, event: object) -> frozenset[int]:
        """The versions whose payloads are read as this class: its own, and those upcasters lead from.

        Empty when upcasters lead on from its version to a newer class. Raises UnregisteredEventError.
        """
        contract = self.contract_of(event)
        readable = self.readable_versions(contract.name)
        return frozenset(
            version for version in readable if self._route(contract.name, version)[-1] == contract.version
        )

    def readable_versions(self, name: str) -> frozenset[int]:
        """The versions of `name` that can be read; empty for an unknown name."""
        registered = self._by_name.get(name, {})
        upcasters = self._upcasters.get(name, _NO_UPCASTERS)
        candidates = upcasters.sources | registered.keys()
        return frozenset(
            version for version in candidates if upcasters.route(version, registered) is not None
        )

    @property
    def names(self) -> frozenset[str]:
        """The registered contract names."""
        return frozenset(self._by_name)

    def __iter__(self) -> Iterator[Contract]:
        return (binding.contract for binding in self._by_type.values())

    def __len__(self) -> int:
        return len(self._by_type)

    def __contains__(self, event: object) -> bool:
        return (event if isinstance(event, type) else type(event)) in self._by_type

    def _binding_of(self, event: object) -> Binding:
        event_type = event if isinstance(event, type) else type(event)
        binding = self._by_type.get(event_type)
        if binding is None:
            raise UnregisteredEventError(
                f"{event_type.__module__}.{event_type.__qualname__} is not registered; "
                "call contracts.register(cls, name=..., version=...) where the application is composed"
            )
        return binding

    def _route(self, name: str, version: int) -> tuple[int, ...]:
        registered = self._by_name.get(name)
        if registered is None:
            raise UnknownContractError(f"contract {name!a} is not registered in this application")
        route = self._upcasters.get(name, _NO_UPCASTERS).route(version, registered)
        if route is None:
            raise UnknownVersionError(
                f"contract {name!a} has no class for version {version} and no upcaster to one"
            )
        return route


_NO_UPCASTERS: Final = UpcasterGraph()
