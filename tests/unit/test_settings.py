"""Options come from mappings and from the environment; what is misspelt or wrong is told all at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from outbox.options import OutboxOptions
from relay.composition.app_options import AppOptions
from relay.composition.option_reading import OptionError, read_options
from relay.settings import Settings, operator_name, read_settings


def test_an_empty_environment_gives_the_defaults() -> None:
    assert read_settings({}) == Settings()
    assert read_settings({"PATH": "/bin", "SELFMANAGED_BROKER_URL": ""}) == Settings()


def test_every_variable_finds_its_place() -> None:
    settings = read_settings(
        {
            "SELFMANAGED_DATABASE_URL": "sqlite+aiosqlite:///shop.db",
            "SELFMANAGED_BROKER_URL": "amqp://guest:guest@localhost",
            "SELFMANAGED_ENVIRONMENT": "development",
            "SELFMANAGED_OPERATOR": "anna",
            "SELFMANAGED_OUTBOX__BATCH_SIZE": "100",
            "SELFMANAGED_OUTBOX__BACKOFF__INITIAL_SECONDS": "0.5",
            "SELFMANAGED_BROKER__QUORUM_QUEUES": "true",
            "SELFMANAGED_BROKER__TLS__CA_FILE": "/etc/ca.pem",
            "SELFMANAGED_ALLOW_LOSSY_BROKER": "true",
        }
    )
    assert (settings.environment, settings.operator) == ("development", "anna")
    assert settings.options.outbox.batch_size == 100
    assert settings.options.outbox.backoff.initial_seconds == 0.5
    assert settings.options.broker.quorum_queues is True
    assert settings.options.broker.tls.ca_file == "/etc/ca.pem"
    assert settings.options.allow_lossy_broker is True
    assert "guest" not in repr(settings)


def test_overrides_of_schedules_are_kept_as_text_beside_the_options_of_their_hosts() -> None:
    settings = read_settings(
        {
            "SELFMANAGED_SCHEDULES__FILES_ORPHAN_CLEANUP__CRON": "0 4 * * *",
            "SELFMANAGED_SCHEDULES__FILES_ORPHAN_CLEANUP__ENABLED": "",
            "SELFMANAGED_SCHEDULES__A__B__TIME_ZONE": "UTC",
            "SELFMANAGED_SCHEDULES__TICK_SECONDS": "2.5",
        }
    )
    assert settings.schedules == {"FILES_ORPHAN_CLEANUP__CRON": "0 4 * * *", "A__B__TIME_ZONE": "UTC"}
    assert settings.options.schedules.tick_seconds == 2.5


@pytest.mark.parametrize(
    ("variables", "problems"),
    [
        (
            {"SELFMANAGED_BROKERURL": "x"},
            ["unknown variable SELFMANAGED_BROKERURL; did you mean 'SELFMANAGED_BROKER_URL'?"],
        ),
        (
            {"SELFMANAGED_OUTBOX__BATCH_SICE": "1", "SELFMANAGED_INBOX__LEASE_SECONDS": "soon"},
            [
                "SELFMANAGED_*: unknown option 'outbox.batch_sice'; did you mean 'batch_size'?",
                "SELFMANAGED_*: option 'inbox.lease_seconds' must be a number, not str",
            ],
        ),
        (
            {"SELFMANAGED_OUTBOX__BATCH_SIZE": "1001"},
            ["SELFMANAGED_*: option outbox.batch_size must be a whole number, 1 to 1000, not 1001"],
        ),
        (
            {"SELFMANAGED_SCHEDULES__TICK_SECOND": "2.5"},
            ["SELFMANAGED_*: unknown option 'schedules.tick_second'; did you mean 'tick_seconds'?"],
        ),
        (
            {"SELFMANAGED_LOG_LEVEL": "warn"},
            ["SELFMANAGED_LOG_LEVEL must be a level, not 'warn'; did you mean 'warning'?"],
        ),
        (
            {"SELFMANAGED_OUTBOX": "5", "SELFMANAGED_OUTBOX__BATCH_SIZE": "1"},
            ["SELFMANAGED_*: option 'outbox' is a group of options, not str"],
        ),
        (
            {"SELFMANAGED_BROKER__QUORUM_QUEUES": "perhaps"},
            ["SELFMANAGED_*: option 'broker.quorum_queues' must be true or false, not str"],
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_rule(variables: dict[str, str], problems: list[str]) -> None:
    with pytest.raises(OptionError) as caught:
        read_settings(variables)
    assert list(caught.value.problems) == problems


def test_options_from_a_mapping_may_hold_finished_groups() -> None:
    outbox = OutboxOptions(batch_size=7)
    options = read_options(AppOptions, {"outbox": outbox, "inbox": {"concurrency": 4}})
    assert options.outbox is outbox
    assert options.inbox.concurrency == 4


def test_text_is_converted_and_other_values_are_not_guessed() -> None:
    with pytest.raises(OptionError, match=r"'inbox.concurrency' must be a whole number, not float 4.5"):
        read_options(AppOptions, {"inbox": {"concurrency": 4.5}})
    with pytest.raises(OptionError, match=r"'inbox.concurrency' must be a whole number, not bool True"):
        read_options(AppOptions, {"inbox": {"concurrency": True}})


def test_a_number_that_is_none_is_refused_by_its_rule() -> None:
    with pytest.raises(OptionError, match=r"option relay.poll_interval_seconds must be positive, not nan"):
        read_settings({"SELFMANAGED_RELAY__POLL_INTERVAL_SECONDS": "nan"})


def test_the_operator_is_the_variable_or_else_the_login() -> None:
    assert operator_name(Settings(operator="anna")) == "anna"
    assert operator_name(Settings())


def test_reading_settings_loads_no_broker_library() -> None:
    code = "import sys, relay.settings; sys.exit('kombu' in sys.modules)"
    home = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=home, check=False).returncode == 0
