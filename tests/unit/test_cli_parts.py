"""The small parts of the command line: moments, tables, logs, help and exit codes."""

import contextlib
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer
from rich.console import Console
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from relay.cli import log as log_module
from relay.cli.argument import parse_instant, parse_moment
from relay.cli.exit_code import ExitCode
from relay.cli.log import configure_logging
from relay.cli.program import program
from relay.cli.screen import Screen
from uow.ticks import UtcInstant

Lines = Callable[[], list[str]]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T10:00:00Z", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31T10:00:00+02:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ],
)
def test_a_moment_is_utc_unless_it_names_an_offset(text: str, moment: datetime) -> None:
    assert parse_moment(text, option="--since") == moment


@pytest.mark.parametrize(("text", "seconds"), [("45s", 45), ("90m", 5400), ("2h", 7200), ("7d", 604_800)])
def test_an_age_counts_back_from_now(text: str, seconds: int) -> None:
    moment = parse_moment(text, option="--since")
    age = datetime.now(UTC) - moment
    assert timedelta(seconds=seconds) <= age < timedelta(seconds=seconds + 5)


@pytest.mark.parametrize("text", ["yesterday", "7", "7w", "-1d", "", "99999999999999999d"])
def test_other_text_is_no_moment(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="or an age such as 90m, 2h, 7d") as caught:
        parse_moment(text, option="--since")
    assert "--since" in caught.value.format_message()


def test_an_instant_keeps_seven_decimal_places_and_is_no_age() -> None:
    exact = parse_instant("2026-01-31T10:00:00.1234567Z", option="--at")
    assert str(exact) == "2026-01-31T10:00:00.1234567Z"
    assert str(parse_instant("2026-01-31T10:00:00.5+02:00", option="--at")) == "2026-01-31T08:00:00.5000000Z"
    assert str(parse_instant("2026-01-31", option="--at")) == "2026-01-31T00:00:00.0000000Z"
    with pytest.raises(typer.BadParameter, match="'2h' is no moment; expected 2026-01-31 or"):
        parse_instant("2h", option="--at")
    then = parse_instant("2h", option="--since", ages=True)
    assert 7200 <= (UtcInstant.now().ticks - then.ticks) / 10_000_000 < 7205


@pytest.mark.parametrize(("option", "value"), [("--contract-version", "0"), ("--consumer", "a\x00")])
@pytest.mark.parametrize("command", [("list", "shop:app"), ("replay", "shop:app", "--all")])
def test_a_filter_that_no_message_can_match_is_wrong_usage(
    command: tuple[str, ...], option: str, value: str
) -> None:
    done = CliRunner().invoke(program, ["failed", *command, option, value])
    assert done.exit_code == ExitCode.USAGE
    assert option.removeprefix("--").split("-")[0] in done.output
    assert "Traceback" not in done.output


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lines:
    """A terminal of 60 columns; gives the lines it shows."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return lambda: [line.rstrip() for line in _plain(capsys.readouterr().out).splitlines()]


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_table_that_is_too_wide_becomes_two_lines_a_row_and_cuts_no_id(
    terminal: Lines,
) -> None:
    failure_id = f"inbox:{'0' * 32}:billing"
    Screen().table(
        ["Id", "Contract", "Tries", "Error"],
        [(failure_id, "orders.placed v1", 3, None), (failure_id, "[red]v2", 0, "timeout")],
        whole=["Id"],
    )
    assert terminal() == [
        failure_id,
        "  orders.placed v1  tries 3",
        failure_id,
        "  [red]v2  tries 0  timeout",
    ]


def test_a_table_that_fits_has_a_head_and_numbers_to_the_right(terminal: Lines) -> None:
    Screen().table(["State", "Messages"], [("pending", 12), ("dead", 3)], whole=["State"])
    assert terminal() == [
        "State    Messages",
        "pending        12",
        "dead            3",
    ]


def test_with_json_people_see_nothing_and_programs_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(json=True)
    screen.line("x")
    screen.note("x")
    screen.table(["a"], [(1,)])
    screen.document({"a": datetime(2026, 1, 1, tzinfo=UTC)})
    screen.error(ExitCode.NOT_FOUND, "no such thing")
    out, err = capsys.readouterr()
    assert out == '{"a":"2026-01-01T00:00:00Z"}\n'
    assert json.loads(err) == {"error": "not_found", "exit_code": 8, "message": "no such thing"}


@contextlib.contextmanager
def unconfigured_logging() -> Iterator[logging.Logger]:
    """The root logger as a process finds it that has configured nothing."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    root.handlers = []
    try:
        yield root
    finally:
        root.handlers, root.level = handlers, level


def _fail() -> None:
    # Made here, so that the lines of this file in the traceback do not hold it.
    secret, password = "-".join(["TOP", "SECRET"]), f"hunter{2}"
    try:
        raise OperationalError("INSERT", {"payload": secret}, OSError(f"no amqp://u:{password}@h\n{secret}"))
    except OperationalError as error:
        raise RuntimeError("settling failed") from error


@pytest.mark.parametrize("as_json", [False, True])
def test_log_lines_hold_neither_statements_nor_parameters_nor_passwords(
    monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(log_module.sys, "stderr", shown)
    with unconfigured_logging():
        configure_logging("INFO", Console(file=shown, width=200), json=as_json)
        try:
            _fail()
        except RuntimeError:
            logging.getLogger("relay").exception("batch of %s", "redis://:hunter2@host")
        logging.getLogger("relay").debug("not shown")
    text = shown.getvalue()
    assert "TOP-SECRET" not in text
    assert "hunter2" not in text
    assert "RuntimeError: settling failed" in text
    assert "OSError: no amqp://u:***@h" in text
    assert "not shown" not in text
    if as_json:
        (entry,) = [json.loads(line) for line in text.splitlines()]
        assert (entry["level"], entry["message"]) == ("error", "batch of redis://:***@host")


def test_no_line_of_a_message_looks_like_an_entry_of_its_own_or_moves_the_cursor() -> None:
    shown = io.StringIO()
    with unconfigured_logging():
        configure_logging("INFO", Console(file=shown, width=200), json=False)
        logging.getLogger("jobs").warning("job %s", "a\n10:00:00 error    b\x1b[1A:key:")
    first, second = shown.getvalue().splitlines()
    assert first.endswith(" warning job a")
    assert second == f"{' ' * 17}10:00:00 error    b\\x1b[1A:key:"


def test_logging_that_the_application_has_configured_is_left_alone() -> None:
    own = logging.NullHandler()
    with unconfigured_logging() as root:
        root.addHandler(own)
        configure_logging("INFO", Console(file=io.StringIO()), json=False)
        assert root.handlers == [own]


COMMANDS = [
    "relay",
    "consume",
    "run",
    "jobs",
    "jobs list",
    "jobs show",
    "jobs submit",
    "jobs cancel",
    "jobs retry",
    "jobs watch",
    "schedules list",
    "schedules report",
    "schedules history",
    "schedules trigger",
    "schedules pause",
    "schedules resume",
    "schedules retry",
    "status",
    "check",
    "failed list",
    "failed show",
    "failed replay",
    "failed discard",
    "failed history",
    "dead list",
    "dead requeue",
    "dead drop",
    "topology declare",
    "topology show",
    "schema ddl",
    "schema check",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_takes_json(command: str) -> None:
    shown = CliRunner().invoke(program, [*command.split(), "--help"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0
    assert f"selfmanaged {command} shop:app" in shown.output
    assert "--json" in shown.output


def test_no_command_is_missing_from_this_list() -> None:
    groups = [(group.name, group.typer_instance) for group in program.registered_groups]
    known = [command.name for command in program.registered_commands]
    known += [
        f"{name} {command.name}"
        for name, group in groups
        if group is not None
        for command in group.registered_commands
    ]
    assert sorted(str(name).removesuffix(" MODULE:APP") for name in known) == sorted(COMMANDS)


def test_a_misspelt_command_or_option_is_told_with_the_right_one() -> None:
    wrong = CliRunner().invoke(program, ["failed", "lst", "shop:app"])
    assert (wrong.exit_code, "Did you mean 'list'?" in wrong.output) == (2, True)
    wrong = CliRunner().invoke(program, ["failed", "list", "shop:app", "--lmit", "5"])
    assert (wrong.exit_code, "--limit" in wrong.output) == (2, True)


def test_the_page_lists_every_exit_code_with_its_meaning() -> None:
    page = (DOCS / "command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| `([A-Z_]+)` \|", page, re.MULTILINE)
    assert rows == [(str(code.value), code.name) for code in ExitCode]
    for command in COMMANDS:
        assert f"selfmanaged {command}" in page
