"""The unit of work, and the words and SQL ground that everyone stands on."""

from uow.backoff import Backoff
from uow.commit_outcome import CommitOutcome, ask_commit_outcome
from uow.contracts import (
    Contract,
    ContractError,
    Contracts,
    DecodeError,
    EncodeError,
    UnregisteredEventError,
)
from uow.errors import FixTheCodeError, LookAtItError, SelfManagedError, TryAgainError
from uow.event import Event, IntegrationEvent
from uow.message import Message
from uow.outcome import Reject, RetryAfter
from uow.participant import Participant, Staged
from uow.sql.sqlite import prepare_sqlite
from uow.text import TextError
from uow.ticks import UtcInstant
from uow.unit import SelfManagedUnitOfWork
from uow.unit_errors import (
    AutocommitError,
    CommitOutcomeUnknownError,
    ConcurrentUseError,
    ForeignBeginError,
    ForeignCloseError,
    ForeignCommitError,
    ForeignRollbackError,
    NoParticipantError,
    RollbackOnlyError,
    SessionInTransactionError,
    SeveralDatabasesError,
    TransactionOwnedError,
    TwoPhaseSessionError,
    UnitNotActiveError,
)
from uow.unit_options import UnitOptions

__all__ = [
    "AutocommitError",
    "Backoff",
    "CommitOutcome",
    "CommitOutcomeUnknownError",
    "ConcurrentUseError",
    "Contract",
    "ContractError",
    "Contracts",
    "DecodeError",
    "EncodeError",
    "Event",
    "FixTheCodeError",
    "ForeignBeginError",
    "ForeignCloseError",
    "ForeignCommitError",
    "ForeignRollbackError",
    "IntegrationEvent",
    "LookAtItError",
    "Message",
    "NoParticipantError",
    "Participant",
    "Reject",
    "RetryAfter",
    "RollbackOnlyError",
    "SelfManagedError",
    "SelfManagedUnitOfWork",
    "SessionInTransactionError",
    "SeveralDatabasesError",
    "Staged",
    "TextError",
    "TransactionOwnedError",
    "TryAgainError",
    "TwoPhaseSessionError",
    "UnitNotActiveError",
    "UnitOptions",
    "UnregisteredEventError",
    "UtcInstant",
    "ask_commit_outcome",
    "prepare_sqlite",
]
