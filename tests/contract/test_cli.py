"""The command line on a real application: what it shows, and with which code it ends."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.shop import Shop, read_line


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def run_until(shop: Shop, lines: list[str], *command: str, dead_letters: int = 0) -> str:
    """Run a process until its output holds these lines and so many messages were given up, then end it
    gracefully; its stderr."""
    process = shop.start(*command)
    for line in lines:
        read_line(process.stdout, line)
    while shop.run("status", "shop:app", "--json").document["inbox"]["dead_lettered"] < dead_letters:
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return err


def test_an_operator_finds_repairs_and_replays_what_failed(shop: Shop) -> None:
    shop.place(1, -1)
    log = run_until(shop, ["billed 1"], "run", "shop:app", dead_letters=1)
    assert "dead-lettered" in log
    assert "SECRET PAYLOAD" not in log

    listed = shop.run("failed", "list", "shop:app", "--json")
    (failed,) = listed.document["failed"]
    failure_id = failed["failure_id"]
    assert (failed["consumer"], failed["error_code"], failed["attempts"]) == ("billing", "handler_error", 1)
    assert failure_id in shop.run("failed", "list", "shop:app").out

    detail = shop.run("failed", "show", "shop:app", failure_id)
    assert ("dead_lettered" in detail.out, "SECRET" in detail.out) == (True, False)

    (shop.directory / "repaired").touch()
    replayed = shop.run("failed", "replay", "shop:app", failure_id, "--operator", "anna", "--json")
    assert (replayed.code, replayed.document["results"][0]["result"]) == (0, "accepted")
    again = shop.run("failed", "replay", "shop:app", failure_id)
    assert (again.code, "invalid_state" in again.out) == (9, True)
    run_until(shop, ["billed -1"], "run", "shop:app")

    shown = shop.run("failed", "show", "shop:app", failure_id, "--json").document
    assert "SECRET" not in str(shown)
    assert shown["state"] == "processed"
    assert [(each["operator"], each["result"]) for each in shown["operations"]][1:] == [("anna", "accepted")]
    history = shop.run("failed", "history", "shop:app", "--json").document["operations"]
    assert [each["result"] for each in history] == ["invalid_state", "accepted"]
    assert {each["on"] for each in history} == {failure_id}
    assert "anna" in shop.run("failed", "history", "shop:app").out
    status = shop.run("status", "shop:app", "--json").document
    assert (status["outbox"]["pending"], status["inbox"]["dead_lettered"]) == (0, 0)
    assert shop.run("failed", "list", "shop:app").out == "Nothing has failed.\n"


def test_an_empty_list_says_whether_nothing_failed_or_nothing_matches(shop: Shop) -> None:
    shop.create_tables()
    assert shop.run("failed", "list", "shop:app").out == "Nothing has failed.\n"
    assert shop.run("failed", "list", "shop:app", "--since", "2h").out == "No failed message matches.\n"
    strange = "No failed message matches: this App has no consumer 'biling'; did you mean 'billing'?\n"
    assert shop.run("failed", "list", "shop:app", "--consumer", "biling").out == strange
    assert shop.run("failed", "replay", "shop:app", "--all", "--consumer", "biling").out == strange


def test_bulk_replay_and_discard_say_what_became_of_each(shop: Shop) -> None:
    shop.place(-1, -2, -3)
    process = shop.start("run", "shop:app")
    for _ in range(3):
        read_line(process.stderr, "dead-lettered")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0

    failed = shop.run("failed", "list", "shop:app", "--json").document["failed"]
    assert len(failed) == 3
    discarded = shop.run("failed", "discard", "shop:app", failed[0]["failure_id"], "--reason", "a test")
    assert discarded.code == 0
    partly = shop.run(
        "failed", "discard", "shop:app", *(each["failure_id"] for each in failed[:2]), "--reason", "x"
    )
    assert partly.code == 11
    refused = shop.run("failed", "replay", "shop:app", "--all", "--consumer", "billing", stdin="n\n")
    assert (refused.code, "Nothing was replayed." in refused.err) == (0, True)
    done = shop.run("failed", "replay", "shop:app", "--all", "--kind", "inbox", "--since", "1h", "--yes")
    assert (done.code, done.out) == (0, "Replayed 1 of 1 messages.\n")


def test_a_question_that_nobody_answers_does_nothing_and_names_the_option(shop: Shop) -> None:
    shop.place(-1)
    process = shop.start("run", "shop:app")
    read_line(process.stderr, "dead-lettered")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    asked = shop.run("failed", "replay", "shop:app", "--all")
    assert (asked.code, "nothing was done" in asked.err, "--yes" in asked.err) == (2, True, True)
    assert "File" not in asked.err
    refused = shop.run("failed", "replay", "shop:app", "--all", stdin="n\n")
    assert (refused.code, "Nothing was replayed." in refused.err) == (0, True)
    assert len(shop.run("failed", "list", "shop:app", "--json").document["failed"]) == 1


def test_relay_and_consumers_run_apart_and_drain_ends_by_itself(shop: Shop) -> None:
    shop.place(*range(20))
    drained = shop.run("relay", "shop:app", "--drain", "--json")
    assert (drained.code, drained.document) == (0, {"left": 0, "dead_lettered": 0})
    log = run_until(shop, ["shipped"], "consume", "shop:app", "--only", "shipping")
    assert "SIGTERM: stopping gracefully" in log
    status = shop.run("status", "shop:app", "--json").document
    assert status["outbox"]["pending"] == 0
    assert status["inbox"]["received"] >= 20
    wrong = shop.run("consume", "shop:app", "--only", "shiping")
    assert "this App has no consumer 'shiping'; did you mean 'shipping'?" in wrong.err
    assert wrong.code == 8


def test_health_answers_over_http_while_it_runs_and_ends_with_the_process(shop: Shop) -> None:
    shop.create_tables()
    process = shop.start("run", "shop:app", "--health-port", "0", "--health-host", "127.0.0.1")
    line = read_line(process.stderr, "health on port")
    port = line.split("port ")[1].split(":")[0]
    read_line(process.stderr, "relay and consumers of")

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez") as answer:
        assert json.load(answer) == {"status": "alive"}
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
        assert json.load(answer)["status"] == "ready"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once_even_while_a_handler_blocks(shop: Shop, number: signal.Signals) -> None:
    shop.place(1)
    source = shop.directory / "shop.py"
    source.write_text(
        source.read_text().replace(
            'print(f"billed {event.number}", flush=True)',
            'import time; print("blocking", flush=True); time.sleep(60)',
        )
    )
    process = shop.start("run", "shop:app")
    read_line(process.stdout, "blocking")
    process.send_signal(number)
    process.send_signal(signal.SIGTERM if number is signal.SIGINT else signal.SIGINT)
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode in {128 + signal.SIGINT, 128 + signal.SIGTERM}


def test_check_and_schema_say_what_is_missing_and_how_to_get_it(shop: Shop) -> None:
    nothing = shop.run("check", "shop:app")
    assert (nothing.code, "there is no database file" in nothing.out) == (4, True)
    (shop.directory / "shop.db").touch()
    bare = shop.run("check", "shop:app", "--json")
    assert (bare.code, bare.document["status"]) == (5, "unready")
    differs = shop.run("schema", "check", "shop:app", "--json")
    assert (differs.code, len(differs.document["differences"])) == (5, 11)
    for command in (["run"], ["failed", "list"], ["status"]):
        refused = shop.run(*command, "shop:app")
        assert (refused.code, "`selfmanaged schema ddl` prints the statements" in refused.err) == (5, True)
    printed = shop.run("schema", "ddl", "shop:app")
    assert printed.out.startswith("CREATE TABLE outbox_message (")
    shop.create_tables()
    assert shop.run("schema", "check", "shop:app").code == 0
    ready = shop.run("check", "shop:app")
    assert (ready.code, ready.out) == (0, "database   ready\ntables     ready\n")


def test_what_is_not_there_or_no_failure_id_has_a_code_of_its_own(shop: Shop) -> None:
    shop.create_tables()
    missing = f"outbox:{'0' * 32}"
    for command in (["show"], ["replay"]):
        assert shop.run("failed", *command, "shop:app", missing).code == 8
    wrong = shop.run("failed", "replay", "shop:app", "42")
    assert (wrong.code, "not a failure id" in wrong.err) == (2, True)
    as_json = shop.run("failed", "show", "shop:app", "42", "--json")
    assert json.loads(as_json.err)["error"] == "usage"
    assert shop.run("failed", "list", "shop:app", "--cursor", "x").code == 2
    assert shop.run("failed", "list", "shop:app", "--since", "yesterday").code == 2
    assert shop.run("failed", "replay", "shop:app").code == 2
    assert shop.run("failed", "replay", "shop:app", "--all", missing).code == 2


def test_local_has_no_topology_and_no_dead_queues_and_says_so(shop: Shop) -> None:
    assert "local: needs no topology" in shop.run("topology", "show", "shop:app").out
    assert "`selfmanaged failed list`" in shop.run("dead", "list", "shop:app").err
    refused = shop.run("dead", "drop", "shop:app", "billing", "--yes")
    assert (refused.code, "local: has no dead queues" in refused.err) == (8, True)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "postgresql+asyncpg://anna:hunter2@127.0.0.1:1/shop",
            "postgresql+asyncpg://anna:***@127.0.0.1:1/shop",
        ),
        ("mysql+asyncmy://anna:hunter2@127.0.0.1:1/shop", "mysql+asyncmy://anna:***@127.0.0.1:1/shop"),
        ("sqlite+aiosqlite:////nowhere/shop.db", "there is no database file /nowhere/shop.db"),
    ],
)
def test_a_database_that_is_away_is_named_without_its_password(tmp_path: Path, url: str, told: str) -> None:
    shop = Shop(tmp_path, database=url)
    for command in (["run"], ["failed", "list"], ["schema", "check"], ["check"]):
        ended = shop.run(*command, "shop:app", "--json")
        assert ended.code == 4
        assert "hunter2" not in ended.out + ended.err
        assert told in ended.out + ended.err


def test_a_reader_that_goes_away_ends_the_command_quietly(shop: Shop) -> None:
    command = " ".join(shop.command("schema", "ddl", "shop:app"))
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -c 1; exit ${{PIPESTATUS[0]}}"],
        cwd=shop.directory,
        env=shop.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in {0, 141}  # all may be written before the reader is gone
