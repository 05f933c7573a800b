"""Settings of a database that let commits be lost are told; those of a database that keeps them are not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event

from uow.sql.durability import durability_faults
from uow.sql.sqlite import prepare_sqlite


@contextmanager
def sqlite(url: str, *pragmas: str) -> Iterator[Engine]:
    engine = create_engine(url)

    def configure(connection: Any, _record: Any) -> None:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    if ":memory:" not in url:
        prepare_sqlite(engine)
    event.listen(engine, "connect", configure)
    yield engine
    engine.dispose()


def faults_of(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return durability_faults(connection)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'app.db'}"


@pytest.mark.parametrize("pragmas", [[], ["synchronous = NORMAL"], ["synchronous = EXTRA"]])
def test_a_sqlite_file_that_is_synchronised_keeps_its_commits(url: str, pragmas: list[str]) -> None:
    with sqlite(url, *pragmas) as engine:
        assert faults_of(engine) == []


@pytest.mark.parametrize(
    ("pragma", "told"),
    [("synchronous = OFF", "synchronous is 0"), ("journal_mode = MEMORY", "journal_mode is memory")],
)
def test_a_sqlite_file_that_is_not_may_lose_them(url: str, pragma: str, told: str) -> None:
    with sqlite(url, pragma) as engine:
        assert faults_of(engine) == [f"{told}: a commit may be lost when the server loses its power"]


def test_a_sqlite_database_in_memory_loses_everything() -> None:
    with sqlite("sqlite:///:memory:") as engine:
        assert [fault.partition(":")[0] for fault in faults_of(engine)] == ["journal_mode is memory"]


class Answering:
    """A connection to a database of a kind, that answers questions about its settings."""

    def __init__(self, name: str, answers: dict[str, str]) -> None:
        self.dialect = type("Dialect", (), {"name": name})()
        self.answers = answers

    def execute(self, statement: Any) -> Any:
        answer = self.answers[str(statement)]
        return type("Result", (), {"scalar": lambda _: answer})()


SAFE = {
    "postgresql": {"SHOW fsync": "on", "SHOW synchronous_commit": "on", "SHOW full_page_writes": "on"},
    "mysql": {"SELECT @@innodb_flush_log_at_trx_commit": "1"},
}


@pytest.mark.parametrize("name", SAFE)
def test_a_server_as_it_comes_keeps_its_commits(name: str) -> None:
    assert durability_faults(Answering(name, SAFE[name])) == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "question", "answer"),
    [
        ("postgresql", "SHOW fsync", "off"),
        ("postgresql", "SHOW synchronous_commit", "off"),
        ("postgresql", "SHOW full_page_writes", "off"),
        ("mysql", "SELECT @@innodb_flush_log_at_trx_commit", "0"),
        ("mysql", "SELECT @@innodb_flush_log_at_trx_commit", "2"),
    ],
)
def test_each_setting_of_a_server_that_loses_commits_is_told(name: str, question: str, answer: str) -> None:
    connection: Any = Answering(name, SAFE[name] | {question: answer})
    (fault,) = durability_faults(connection)
    setting = question.rsplit(maxsplit=1)[-1].removeprefix("@@")
    assert fault == f"{setting} is {answer}: a commit may be lost when the server loses its power"


@pytest.mark.parametrize("answer", ["local", "remote_write", "remote_apply"])
def test_waiting_for_no_standby_loses_nothing_here(answer: str) -> None:
    asked: Callable[[Any], list[str]] = durability_faults
    assert asked(Answering("postgresql", SAFE["postgresql"] | {"SHOW synchronous_commit": answer})) == []
