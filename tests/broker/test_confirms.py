"""What RabbitMQ says about published messages, in every order in which it may say it."""

import pytest

from relay.broker import PublishResult, Verdict
from relay.kombu_broker.batch import Batch
from relay.kombu_broker.confirms import Confirms
from tests.support.brokers import make_message


class Sent:
    """Five messages on one channel."""

    def __init__(self) -> None:
        self.messages = [make_message() for _ in range(5)]
        self.batch = Batch(self.messages)
        self.confirms = Confirms()
        for position, message in enumerate(self.messages):
            self.batch.written(position)
            self.confirms.sent(self.batch, position, message.id.hex)

    def verdicts(self) -> list[str]:
        self.batch.give_up("confirm_timeout", "late")
        return [result.error_code or result.verdict.value for result in self.batch.results()]


@pytest.fixture
def sent() -> Sent:
    return Sent()


def test_each_is_confirmed_by_its_own_tag(sent: Sent) -> None:
    for tag in (5, 1, 3):
        sent.confirms.on_ack(tag, False)
    assert sent.verdicts() == ["confirmed", "confirm_timeout", "confirmed", "confirm_timeout", "confirmed"]
    assert sent.confirms.positions(sent.batch) == [1, 3]


def test_one_confirm_may_stand_for_all_before_it(sent: Sent) -> None:
    sent.confirms.on_ack(2, False)
    sent.confirms.on_ack(4, True)
    assert sent.verdicts() == ["confirmed"] * 4 + ["confirm_timeout"]


def test_a_returned_message_is_unroutable_though_it_is_confirmed_afterwards(sent: Sent) -> None:
    sent.confirms.on_return(sent.messages[1].id.hex)
    sent.confirms.on_return(sent.messages[3].id.hex)
    sent.confirms.on_ack(5, True)
    assert sent.verdicts() == ["confirmed", "unroutable", "confirmed", "unroutable", "confirmed"]
    assert len(sent.confirms) == 0


def test_a_nack_may_stand_for_all_before_it(sent: Sent) -> None:
    sent.confirms.on_ack(1, False)
    sent.confirms.on_nack(3, True)
    sent.confirms.on_ack(5, True)
    assert sent.verdicts() == ["confirmed", "nack", "nack", "confirmed", "confirmed"]


def test_unknown_tags_and_returns_change_nothing(sent: Sent) -> None:
    sent.confirms.on_ack(99, False)
    sent.confirms.on_return("never sent")
    sent.confirms.on_return(None)
    sent.confirms.on_nack(0, False)
    assert sent.verdicts() == ["confirm_timeout"] * 5


def test_a_new_channel_counts_from_one_again(sent: Sent) -> None:
    sent.confirms.restart()
    again = Batch(sent.messages)
    sent.confirms.sent(again, 4, sent.messages[4].id.hex)
    sent.confirms.on_ack(1, False)
    assert next(again.open_positions()) == 0
    again.give_up("connection_lost", "gone")
    assert again.results()[4] == PublishResult(Verdict.CONFIRMED)
    assert again.results()[0] == PublishResult(Verdict.UNSENT, "connection_lost", "gone")


def test_the_same_message_twice_in_flight_is_returned_one_at_a_time() -> None:
    message = make_message()
    batch, confirms = Batch([message, message]), Confirms()
    for position in (0, 1):
        batch.written(position)
        confirms.sent(batch, position, message.id.hex)
    confirms.on_return(message.id.hex)
    confirms.on_ack(1, False)
    confirms.on_ack(2, False)
    assert [result.error_code for result in batch.results()] == ["unroutable", None]


def test_the_first_verdict_stands() -> None:
    batch = Batch([make_message()])
    batch.judge(0, Verdict.REFUSED, "unroutable", "")
    batch.confirm(0)
    batch.give_up("connection_lost", "")
    assert [result.error_code for result in batch.results()] == ["unroutable"]
