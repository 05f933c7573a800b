"""A contract together with the codec of its class."""

from functools import cached_property

from uow.contracts.codec import Codec, codec_for
from uow.contracts.contract import Contract
from uow.contracts.error import ContractDefinitionError


class Binding:
    """A registered contract; its codec is built at registration when the class is complete by then.

    A class may name types that its module defines further down; its codec is then built when first used.
    """

    def __init__(self, contract: Contract) -> None:
        self.contract = contract

    def prepare(self) -> None:
        """Build the codec now unless type names are still missing. Raises ContractDefinitionError."""
        try:
            self.__dict__["codec"] = codec_for(self.contract.event_type)
        except NameError:
            return

    @cached_property
    def codec(self) -> Codec:
        """Writes and reads the class. Raises ContractDefinitionError."""
        try:
            return codec_for(self.contract.event_type)
        except NameError as error:
            raise ContractDefinitionError(
                f"{self.contract.event_type.__qualname__} uses a type name that is not defined: {error}"
            ) from error
