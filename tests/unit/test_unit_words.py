"""The words of the unit of work that need no database."""

import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError

from tests.support.unit_of_work import Note, NoteConflictError, NoteParticipant
from uow.commit_outcome import is_refusal
from uow.sql.dialect import MYSQL, POSTGRESQL, SQLITE
from uow.sql.transaction_control import commits, opened_savepoint, rolled_back_savepoint, rolls_back
from uow.staged_items import StagedItems
from uow.unit_errors import CommitOutcomeUnknownError, RollbackOnlyError
from uow.unit_options import UnitOptions

COMMITS = [
    "COMMIT",
    "commit;",
    " \n\tCommit work",
    "-- why\nCOMMIT",
    "/* why */ ; COMMIT",
    "END",
    "BEGIN",
    "begin immediate",
    "START TRANSACTION",
    "PREPARE TRANSACTION 'x'",
    "SET autocommit=1",
    "SET SESSION autocommit = 1",
    "SET @@session.autocommit = 1",
]
ROLLS_BACK = ["ROLLBACK", "abort", "rollback work", "-- no\nROLLBACK;", "ROLLBACK AND CHAIN"]
HARMLESS = [
    "SELECT 1",
    "INSERT INTO commits VALUES (1)",
    "SELECT 'x' -- COMMIT",
    "COMMITTED",
    "ENDING",
    "SAVEPOINT sa_savepoint_1",
    "RELEASE SAVEPOINT sa_savepoint_1",
    "ROLLBACK TO SAVEPOINT sa_savepoint_1",
    "rollback work to mine",
    "BEGIN NOT ATOMIC SELECT 1; END",
    "UPDATE t SET x = 1",
    "SET LOCAL lock_timeout = 1",
    "WITH x AS (SELECT 1) SELECT * FROM x",
    "CREATE TEMPORARY TABLE t (x int)",
    "DROP TEMPORARY TABLE t",
    "ANALYZE SELECT 1",
    "",
]


@pytest.mark.parametrize("statement", COMMITS)
def test_a_statement_that_commits_or_begins_is_seen(statement: str) -> None:
    assert commits(statement, SQLITE)
    assert commits(statement, MYSQL)
    assert not rolls_back(statement)


@pytest.mark.parametrize("statement", ROLLS_BACK)
def test_a_statement_that_rolls_back_is_seen(statement: str) -> None:
    assert rolls_back(statement)
    assert not commits(statement, POSTGRESQL)


@pytest.mark.parametrize("statement", HARMLESS)
def test_a_harmless_statement_passes(statement: str) -> None:
    assert not rolls_back(statement)
    for database in (POSTGRESQL, SQLITE, MYSQL):
        assert not commits(statement, database)


def test_savepoints_are_known_by_name_however_they_are_written() -> None:
    assert opened_savepoint("SAVEPOINT sa_savepoint_1") == "sa_savepoint_1"
    assert opened_savepoint('-- x\n savepoint "Mine";') == "mine"
    assert rolled_back_savepoint("ROLLBACK TO SAVEPOINT sa_savepoint_1") == "sa_savepoint_1"
    assert rolled_back_savepoint("rollback to `mine`") == "mine"
    assert rolled_back_savepoint("ROLLBACK WORK TO mine;") == "mine"
    assert opened_savepoint("RELEASE SAVEPOINT mine") is rolled_back_savepoint("ROLLBACK") is None


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (x int)",
        "create or replace view v as select 1",
        "ALTER TABLE t ADD x int",
        "DROP TABLE t",
        "TRUNCATE t",
        "RENAME TABLE t TO u",
        "GRANT ALL ON t TO u",
        "LOCK TABLES t READ",
        "ANALYZE TABLE t",
    ],
)
def test_a_definition_commits_only_where_the_database_does_that(statement: str) -> None:
    assert commits(statement, MYSQL)
    assert not commits(statement, POSTGRESQL)
    assert not commits(statement, SQLITE)


def test_staged_things_keep_their_order_and_their_identity_within_a_participant() -> None:
    staged, first, second = StagedItems(), NoteParticipant(), NoteParticipant()
    one = staged.add(first, first.stage(Note(1)))
    staged.add(second, second.stage(Note(1, "another participant's own")))
    staged.add(first, first.stage(Note(2)))
    assert staged.add(first, first.stage(Note(1))) is one
    assert [each.key for each in staged.of(first)] == [1, 2]
    assert staged.keys() == (1, 1, 2)
    with pytest.raises(NoteConflictError):
        staged.add(first, first.stage(Note(2, "other")))


def test_dropping_back_to_a_mark_forgets_what_came_after_it() -> None:
    staged, notes = StagedItems(), NoteParticipant()
    staged.add(notes, notes.stage(Note(1)))
    mark = staged.mark()
    staged.add(notes, notes.stage(Note(2, "first")))
    staged.drop_after(mark)
    staged.drop_after(mark)
    staged.add(notes, notes.stage(Note(2, "second")))
    assert [each.content for each in staged.of(notes)] == ["hello", "second"]


def test_a_rollback_only_error_names_its_cause_but_no_values_of_a_statement() -> None:
    cause = IntegrityError("INSERT INTO t VALUES (:secret)", {"secret": "s3cret"}, ValueError("s3cret"))
    text = str(RollbackOnlyError(cause))
    assert "sqlalchemy.exc.IntegrityError (ValueError)" in text
    assert "s3cret" not in text
    assert str(RollbackOnlyError(KeyError("x" * 1000))).endswith("x" * 100)
    assert len(str(RollbackOnlyError(KeyError("x" * 1000)))) < 400
    assert str(RollbackOnlyError(LookupError())).endswith("LookupError")


def test_an_unknown_outcome_says_how_to_find_out_and_names_some_identities() -> None:
    error = CommitOutcomeUnknownError("815", list(range(9)))
    assert "ask_commit_outcome(engine, '815')" in str(error)
    assert "staged: 0, 1, 2, 3, 4 and 4 more" in str(error)
    assert error.keys == tuple(range(9))
    assert "look whether the staged identities are stored" in str(CommitOutcomeUnknownError(None, [1]))


@pytest.mark.parametrize(
    ("attributes", "refused"),
    [
        ({"sqlstate": "23505"}, True),
        ({"sqlstate": "40001"}, True),
        ({"sqlstate": "08006"}, False),
        ({"sqlstate": "57P01"}, False),
        ({"sqlstate": None}, False),
        ({"sqlite_errorcode": 5}, True),
        ({"args": (1213, "deadlock")}, True),
        ({"args": (2013, "lost")}, False),
        ({"args": (2014, "out of sync")}, False),
        ({"args": (0, "not connected")}, False),
        ({}, False),
    ],
)
def test_only_the_databases_own_answer_to_commit_counts_as_a_refusal(
    attributes: dict[str, object], refused: bool
) -> None:
    driver_error = Exception()
    for name, value in attributes.items():
        setattr(driver_error, name, value)
    assert is_refusal(DBAPIError("COMMIT", None, driver_error)) is refused


def test_a_lost_connection_or_anything_else_is_no_refusal() -> None:
    answered = Exception()
    answered.sqlstate = "23505"  # type: ignore[attr-defined]
    assert not is_refusal(InterfaceError("COMMIT", None, answered, connection_invalidated=True))
    assert not is_refusal(OSError("reset"))
    assert not is_refusal(TimeoutError())


@pytest.mark.parametrize("option", ["commit_patience_seconds", "cleanup_seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_limits_must_be_positive_and_finite(option: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{option} must be positive, not {value}"):
        UnitOptions(**{option: value})
