"""Upcasters: how the payload of an older version becomes that of a newer one when it is read."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final, TypeAlias

import msgspec

from uow.contracts.contract import check_version
from uow.contracts.error import ContractDefinitionError, UpcastError
from uow.contracts.json_text import write_json
from uow.contracts.reading import read_safely, reading_error

Upcaster: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the payload of one version as a dict and returns that of a later version."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


class UpcasterGraph:
    """The upcasters of one contract name, from version to later version."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[int, Upcaster]] = {}

    def add(self, from_version: int, to_version: int, upcaster: Upcaster) -> None:
        """Add one step. Raises ContractDefinitionError unless it leads forward and is new."""
        check_version(from_version, "from_version")
        check_version(to_version, "to_version")
        if not callable(upcaster):
            raise ContractDefinitionError("upcaster must be callable")
        if to_version <= from_version:
            raise ContractDefinitionError("an upcaster must lead to a later version")
        if to_version in self._steps.setdefault(from_version, {}):
            raise ContractDefinitionError(f"v{from_version} has an upcaster to v{to_version} already")
        self._steps[from_version][to_version] = upcaster

    @property
    def sources(self) -> frozenset[int]:
        """The versions from which an upcaster leads."""
        return frozenset(version for version, steps in self._steps.items() if steps)

    def route(self, version: int, registered: Iterable[int]) -> tuple[int, ...] | None:
        """The versions on the way from `version` to the newest registered one that can be reached.

        The fewest steps win, and of equals the longer stride. None when no registered version is reached.
        """
        routes: dict[int, tuple[int, ...]] = {version: (version,)}
        queue = [version]
        for current in queue:
            for following in sorted(self._steps.get(current, ()), reverse=True):
                if following not in routes:
                    routes[following] = (*routes[current], following)
                    queue.append(following)
        target = max((each for each in registered if each in routes), default=None)
        return None if target is None else routes[target]

    def apply(self, contract: str, payload: str, route: tuple[int, ...]) -> bytes:
        """The JSON text after every step of `route`. Raises UpcastError, without any text of the payload."""
        value: Any = read_safely(
            lambda: _OBJECT.decode(payload), lambda error: reading_error(contract, error, frozenset())
        )
        for before, after in pairwise(route):
            value = self._step(contract, value, before, after)
        return read_safely(
            lambda: write_json(value),
            lambda _: UpcastError(f"{contract}: the upcaster to v{route[-1]} returned what has no JSON form"),
        )

    def _step(self, contract: str, value: dict[str, Any], before: int, after: int) -> dict[str, Any]:
        name = f"{contract}: the upcaster from v{before} to v{after}"
        result = read_safely(
            lambda: self._steps[before][after](value),
            lambda error: UpcastError(f"{name} raised {type(error).__name__}"),
        )
        if not isinstance(result, dict):
            raise UpcastError(f"{name} returned {type(result).__name__}, not a dict")
        return result
