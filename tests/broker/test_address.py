"""Broker URLs are taken apart with clear errors, and never show a secret."""

import logging
import subprocess
import sys

import pytest

from relay.broker import BrokerAddressError, BrokerUnavailableError
from relay.kombu_broker import BrokerOptions, TlsOptions, open_broker
from relay.kombu_broker.address import parse_address
from tests.support.brokers import make_message

SECRET = "S3cret-pässword"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"amqp://shop:{SECRET}@broker.example:5672/orders", "amqp://broker.example:5672/orders"),
        (f"amqps://shop:{SECRET}@broker.example/", "amqps://broker.example/"),
        ("amqp://", "amqp://"),
        (f"amqp://shop:{SECRET}@[::1]:5672//", "amqp://[::1]:5672//"),
        (f"redis://:{SECRET}@cache:6379/3?global_keyprefix=shop", "redis://cache:6379/3"),
        (f"sqla+postgresql://shop:{SECRET}@db/shop?sslpassword={SECRET}", "sqla+postgresql://db/shop"),
        (f"redis+socket://:{SECRET}@/run/redis.sock", "redis+socket:///run/redis.sock"),
        ("filesystem:///var/lib/broker", "filesystem:///var/lib/broker"),
        ("memory://", "memory://"),
        (f"amqp://u:{SECRET}@a;amqp://u:{SECRET}@b:5673", "amqp://a;amqp://b:5673"),
    ],
)
def test_a_url_is_shown_without_user_password_and_query(url: str, shown: str) -> None:
    broker = open_broker(url)
    assert broker.display_url == shown
    for text in (repr(broker), str(parse_address(url)), repr(parse_address(url))):
        assert SECRET not in text
        assert "shop:" not in text


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", r"must look like scheme://"),
        ("broker.example:5672", r"has no '://'"),
        (f"amqp:/shop:{SECRET}@broker", r"has no '://'; write amqp://"),
        (f"ampq://shop:{SECRET}@broker", r"unknown broker scheme 'ampq'; did you mean 'amqp'\?"),
        (f"rabbitmq://shop:{SECRET}@broker", r"unknown broker scheme 'rabbitmq'; RabbitMQ is amqp://"),
        (f"amqp://shop:{SECRET}@broker:port/", r"the port must be 1 to 65535"),
        (f"amqp://shop:{SECRET}@broker:99999/", r"the port must be 1 to 65535"),
        (f"amqp://shop:{SECRET}@broker:0/", r"the port must be 1 to 65535"),
        (f"amqp://shop:{SECRET}@[::1/", r"an IPv6 host must be in brackets"),
        (f"amqp://shop:a/{SECRET}@broker/", r"must be percent-encoded"),
        (f"amqp://shop:{SECRET}@bro ker/", r"white space"),
        (f"redis://:{SECRET}@cache/orders", r"must end in a database number"),
        (f"redis://:{SECRET}@cache/0?global_key_prefix={SECRET}", r"did you mean 'global_keyprefix'\?"),
        (f"amqp://shop:{SECRET}@broker/?heartbeet={SECRET}", r"unknown option 'heartbeet'"),
        ("filesystem://", r"must name an absolute folder"),
        ("filesystem://folder", r"must name an absolute folder"),
        ("sqla://", r"write sqla\+ before a database URL"),
        (f"librabbitmq://shop:{SECRET}@broker", r"has no publisher confirms; write amqp://"),
        (f"amqp://u:{SECRET}@a;redis://:{SECRET}@b", r"must have one scheme, not amqp, redis"),
        (f"mongodb://u:{SECRET}@a", r"needs the Python package 'pymongo', which is not installed"),
    ],
)
def test_a_wrong_url_is_refused_with_words_and_without_secrets(url: str, message: str) -> None:
    with pytest.raises(BrokerAddressError, match=message) as caught:
        open_broker(url)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_transport_whose_package_is_missing_says_which() -> None:
    program = """
import sys
sys.modules["redis"] = None
from relay.kombu_broker import open_broker
try:
    open_broker("redis://:S3cret@host/0")
except Exception as error:
    print(type(error).__name__, error)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == (
        "BrokerAddressError the redis transport needs the Python package 'redis', "
        "which is not installed; install selfmanaged[redis]\n"
    )


def test_options_and_names_load_no_broker_library() -> None:
    program = """
import sys
import relay.kombu_broker.names
from relay.kombu_broker import BrokerOptions, open_broker
print([name for name in sys.modules if name.split(".")[0] in ("kombu", "amqp")])
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


async def test_an_unreachable_broker_is_told_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for url in (f"amqp://shop:{SECRET}@127.0.0.1:1//", f"redis://shop:{SECRET}@127.0.0.1:1/0"):
        broker = open_broker(url, BrokerOptions(connect_timeout_seconds=1))
        with pytest.raises(
            BrokerUnavailableError, match=r"cannot reach the broker at \w+://127.0.0.1:1/"
        ) as e:
            await broker.check_connection()
        [result] = await (await broker.open_publisher()).publish([make_message()])
        assert result.error_code == "broker_unavailable"
        await broker.close()
        assert SECRET not in f"{e.value} {result.detail} {caplog.text}"
        assert e.value.__cause__ is None


async def test_a_refused_login_is_an_outage_and_shows_no_password(rabbit_url: str, redis_url: str) -> None:
    for url in (rabbit_url, redis_url):
        scheme, _, rest = url.partition("://")
        host = rest.rpartition("@")[2]
        broker = open_broker(f"{scheme}://nobody:{SECRET}@{host}", BrokerOptions(connect_timeout_seconds=2))
        with pytest.raises(BrokerUnavailableError) as caught:
            await broker.check_connection()
        assert SECRET not in str(caught.value)


async def test_a_failover_list_is_tried_in_turn(rabbit_url: str) -> None:
    broker = open_broker(f"amqp://guest:guest@127.0.0.1:1//;{rabbit_url}")
    await broker.check_connection()


def test_opening_does_no_io() -> None:
    open_broker("amqp://nowhere.invalid:5672//")
    open_broker("redis://nowhere.invalid:6379/0")


def test_transports_that_lose_messages_say_so() -> None:
    lossy = {
        url.partition(":")[0]: open_broker(url).features.loses_messages
        for url in ("amqp://", "redis://", "memory://", "filesystem:///tmp/x", "sqla+sqlite:///x.db")
    }
    assert lossy == {
        "amqp": False,
        "redis": False,
        "memory": True,
        "filesystem": True,
        "sqla+sqlite": True,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exchange": "a b"}, "exchange must be 1 to 250 letters"),
        ({"exchange": "x" * 251}, "exchange must be 1 to 250 letters"),
        ({"queue_prefix": " "}, "queue_prefix must not be blank"),
        ({"confirm_timeout_seconds": 0}, "confirm_timeout_seconds must be positive, not 0"),
        ({"heartbeat_seconds": 0.5}, "heartbeat_seconds must be at least 1, not 0.5"),
        ({"unconfirmed_limit": 0}, "unconfirmed_limit must be a whole number, 1 to 10000, not 0"),
    ],
)
def test_options_are_checked_when_built(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BrokerOptions(**options)  # type: ignore[arg-type]


def test_options_show_no_transport_options() -> None:
    assert SECRET not in repr(BrokerOptions(transport_options={"password": SECRET}))
    with pytest.raises(ValueError, match="certificate_file must be given with key_file"):
        TlsOptions(key_file="key.pem")
