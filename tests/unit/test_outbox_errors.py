"""Errors of the outbox say which fields differ, never their values, and survive pickling."""

import pickle
from uuid import UUID

from outbox import EventConflictError, OutboxState
from outbox.state import HOLDS_ITS_KEY, TRANSITIONS, UNFINISHED
from tests.support.outbox import message
from uow.errors import FixTheCodeError

EVENT = UUID("0190f3a0-0000-7000-8000-000000000001")


def test_a_conflict_names_the_event_and_the_fields() -> None:
    error = EventConflictError.between(
        message(id=EVENT, payload='{"secret":1}'), message(id=EVENT, contract_version=2)
    )
    assert str(error) == (
        "event 0190f3a0-0000-7000-8000-000000000001 was enqueued before with other content "
        "(contract_version, payload); an event that says something else needs an id of its own"
    )
    assert isinstance(error, FixTheCodeError)


def test_a_conflict_survives_pickling() -> None:
    error = EventConflictError(EVENT, ["payload"])
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.event_id, copy.differs) == (str(error), EVENT, ("payload",))


def test_every_state_has_its_moves_and_a_finished_row_moves_only_to_pending_or_discarded() -> None:
    assert set(TRANSITIONS) == set(OutboxState)
    assert set(UNFINISHED) < set(HOLDS_ITS_KEY)
    for state in set(OutboxState) - set(UNFINISHED):
        assert TRANSITIONS[state] <= {OutboxState.PENDING, OutboxState.DISCARDED}
