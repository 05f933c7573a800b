"""The command line with RabbitMQ, and with a broker that is away."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from kombu import Connection, Exchange, Producer

from tests.support import services
from tests.support.shop import Shop


@pytest.fixture
def names() -> Iterator[str]:
    """Exchange and queue prefix of this test alone; nothing is left of them."""
    url, name = services.RABBITMQ.require(), f"test-{uuid4().hex[:12]}"
    yield name
    with Connection(url) as connection:
        channel = connection.default_channel
        for consumer in ("billing", "shipping"):
            channel.queue_delete(f"{name}.{consumer}")
            channel.queue_delete(f"{name}.{consumer}.dead")
        channel.exchange_delete(name)
        channel.exchange_delete(f"{name}.dead")


@pytest.fixture
def shop(tmp_path: Path, names: str) -> Shop:
    options = {"broker": {"exchange": names, "queue_prefix": names}}
    return Shop(tmp_path, broker=services.RABBITMQ.url, options=options)


def test_topology_is_shown_declared_and_then_accepted(shop: Shop, names: str) -> None:
    shop.place(1)
    missing = shop.run("topology", "show", "shop:app", "--json")
    assert (missing.code, missing.document["complete"]) == (7, False)
    refused = shop.run("run", "shop:app")
    assert (refused.code, "`selfmanaged topology declare` creates what is missing" in refused.err) == (
        7,
        True,
    )
    assert (shop.run("check", "shop:app").code, shop.run("check", "shop:app", "--strict").code) == (0, 7)
    declared = shop.run("topology", "declare", "shop:app")
    assert (declared.code, f"{names}.billing" in declared.out) == (0, True)
    assert shop.run("topology", "show", "shop:app").code == 0
    assert shop.run("check", "shop:app", "--strict").code == 0
    drained = shop.run("relay", "shop:app", "--drain", "--relays", "2")
    assert (drained.code, "Nothing is left to publish." in drained.out) == (0, True)


def test_dead_deliveries_are_listed_requeued_and_dropped(shop: Shop, names: str) -> None:
    shop.create_tables()
    shop.run("topology", "declare", "shop:app")
    with Connection(services.RABBITMQ.url) as connection:
        for _ in range(3):
            Producer(connection).publish(
                b"SECRET", exchange=Exchange(f"{names}.dead", no_declare=True), routing_key=f"{names}.billing"
            )
    counts = shop.run("dead", "list", "shop:app", "--json").document["counts"]
    assert counts == {"billing": 3, "shipping": 0}
    listed = shop.run("dead", "list", "shop:app", "billing")
    assert (listed.code, "SECRET" in listed.out) == (0, False)
    assert shop.run("dead", "requeue", "shop:app", "billing", "--limit", "1").out == (
        "Requeued 1 deliveries for billing.\n"
    )
    kept = shop.run("dead", "drop", "shop:app", "billing", stdin="n\n")
    assert (kept.code, "Nothing was dropped." in kept.err) == (0, True)
    unanswered = shop.run("dead", "drop", "shop:app", "billing")
    assert (unanswered.code, "--yes" in unanswered.err) == (2, True)
    strange = shop.run("dead", "drop", "shop:app", "biling")
    assert (strange.code, "did you mean 'billing'?" in strange.err) == (8, True)
    dropped = shop.run("dead", "drop", "shop:app", "billing", "--yes", "--operator", "anna", "--json")
    assert dropped.document == {"consumer": "billing", "dropped": 2}
    history = shop.run("failed", "history", "shop:app")
    assert "dead queue of billing" in history.out
    wrong = shop.run("dead", "list", "shop:app", "biling")
    assert (wrong.code, "did you mean 'billing'?" in wrong.err) == (8, True)


def test_a_broker_that_is_away_is_degraded_and_named_without_its_password(tmp_path: Path) -> None:
    shop = Shop(tmp_path, broker="amqp://anna:hunter2@127.0.0.1:1//")
    shop.place(1)
    degraded = shop.run("check", "shop:app", "--json")
    assert (degraded.code, degraded.document["status"]) == (0, "degraded")
    assert "topology   degraded  as broker\n" in shop.run("check", "shop:app").out
    strict = shop.run("check", "shop:app", "--strict")
    away = shop.run("topology", "show", "shop:app", "--json")
    status = shop.run("status", "shop:app")
    drained = shop.run("relay", "shop:app", "--drain", "--drain-timeout", "0.5")
    assert (strict.code, away.code, status.code, drained.code) == (6, 6, 0, 11)
    assert json.loads(away.err)["error"] == "broker_away"
    assert "dead queues unknown" in status.err
    for ended in (degraded, strict, away, status, drained):
        assert "hunter2" not in ended.out + ended.err


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("amqq://anna:hunter2@host", "unknown broker scheme 'amqq'; did you mean 'amqp'?"),
        ("amqp://anna:hun/ter2@host", "malformed"),
        ("redis://:hunter2@host/x", "database number"),
    ],
)
def test_a_broker_url_that_is_wrong_is_told_without_its_password(tmp_path: Path, url: str, told: str) -> None:
    shop = Shop(tmp_path, broker=url)
    refused = shop.run("check", "shop:app")
    assert (refused.code, told in refused.err) == (3, True)
    assert "ter2" not in refused.err.replace("DATABASE, BROKER", "")
