"""Every example runs by itself on SQLite and prints what it promises."""

from pathlib import Path

import pytest

from tests.house.programs import run_python
from tests.house.source import ROOT

PRINTED = {
    "nested_units.py": """\
one commit for two nested blocks: 2 accounts, 2 events
the caller hides the failure of the second account ...
... but half an operation is never kept: an account needs a name
still: 2 accounts, 2 events
""",
    "retry_with_stable_identity.py": """\
first attempt, the answer is lost: 1 event
second attempt, same identity and content: 1 event
same identity, other content: EventConflictError
nothing was changed: 1 event
""",
    "two_contexts.py": """\
both commit: 1 x sales.sold | 1 x stock.counted
the sale fails after the stock is committed: 1 x sales.sold | 2 x stock.counted
an event of the other context is refused: UnregisteredEventError
""",
    "fastapi_service.py": """\
201 {'number': 1}
409 {'detail': 'there is such a book already'}
1 event waits for the relay; kombu loaded: False
""",
    "pydantic_event.py": """\
a wrong event is refused where it is made: greater_than
billed 22.00 for 2 lines
""",
    "retry_after.py": """\
attempt 1: the bank is closed, again in 0.2 s
attempt 2: the bank is closed, again in 0.2 s
attempt 3: paid 100
payment of 100: processed after 3 attempts
attempt 1: a payment of 0 makes no sense, rejected
payment of 0: dead_lettered after 1 attempt
""",
    "schedule_module.py": """\
settlement is due 2027-03-28T01:00:00.0000000Z
settlement is due 2027-03-29T00:30:00.0000000Z
billing.rates runs because of its schedule
settlement by hand: succeeded after 2 attempts, settled
billing.rates: paused by ana, the provider is closed
billing.settlement: triggered by ana, month-end, retried by ana, the bank is back
""",
    "schedule_tenants.py": """\
airline: 300 visits in 3 batches, now at 900
cinema: 300 visits in 3 batches, now at 899
failed: bakery - 700 of 900 are counted
bakery: 200 visits in 2 batches, now at 898
counted: 900
""",
    "schedule_lease.py": """\
Ben is told that someone else is closing the month
Ana has closed the month
the token only grows: True
what comes late is refused
""",
    "job_progress_and_cancel.py": """\
january: 100 %, page 4 of 4
january: succeeded, see reports/january.pdf
all-years: it has begun, and is not wanted any more
  the handler is asked to end: cancel_requested
all-years: cancellation requested; cancelled, see None
later: nobody serves its queue yet; cancellation: cancelled
later: once more: final
""",
    "job_transactional.py": """\
attempt 1: all is written, then the connection to the bank breaks
attempt 2: all is written
attempt 1 in the database: failed
attempt 2 in the database: succeeded
book-7: succeeded; 1 booking, 1 event, 2 jobs
""",
    "job_retry_policy.py": """\
busy: succeeded; retry_after, succeeded
flaky: succeeded; handler_error, handler_error, succeeded
closed: failed; handler_error
unknown: failed; no_such_recipient
down: failed; handler_error, handler_error, handler_error
an operator retries what was refused: queued
closed: failed after 2 attempts, 1 left
and what has none left: no_attempts_left
""",
    "job_from_web_request.py": """\
POST poetry: 202 {'job': 'key-1'}
POST poetry: 202 {'job': 'key-1'}
POST travel: 409 {'detail': 'this idempotency key was used for another request'}
POST poetry: 422 {'detail': 'job_id must not be blank'}
GET: {'state': 'queued', 'file': None}
GET: {'state': 'succeeded', 'file': '/files/poetry.csv'}
jobs stored: 1
""",
    "job_two_scopes.py": """\
acme sees july, june
globex sees june
globex looks at july: there is no job 'july' in this scope
globex cancels july: not_found
globex cancels june: cancelled
june of acme: succeeded, see acme/june.pdf
july of acme: succeeded, see acme/july.pdf
june of globex: cancelled, see None
""",
}


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    assert run_python(str(ROOT / "examples" / name), directory=tmp_path) == PRINTED[name]


def test_no_example_is_forgotten_here() -> None:
    files = {path.name for path in (ROOT / "examples").glob("*.py")} - {"__init__.py"}
    assert files == set(PRINTED)
