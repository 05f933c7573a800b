"""Failure ids are opaque, safe in a command line and come back exactly."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.admin.failure_id import FailureId, FailureIdError, FailureKind

MESSAGE = UUID("0190f3a0-0000-7000-8000-0000000000ab")


def test_an_outbox_failure_is_named_by_its_event() -> None:
    assert str(FailureId.outbox(MESSAGE)) == f"outbox:{MESSAGE.hex}"
    assert FailureId.parse(f"outbox:{MESSAGE.hex}") == FailureId.outbox(MESSAGE)


def test_an_inbox_failure_is_named_by_message_and_escaped_consumer() -> None:
    text = str(FailureId.inbox(MESSAGE, "billing: Zürich/1"))
    assert text == f"inbox:{MESSAGE.hex}:billing%3A%20Z%C3%BCrich%2F1"
    assert FailureId.parse(text) == FailureId(FailureKind.INBOX, MESSAGE, "billing: Zürich/1")


@given(
    st.uuids(),
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=100
    ).filter(lambda name: not name.isspace()),
)
def test_any_consumer_name_comes_back_exactly_and_without_blanks(message_id: UUID, consumer: str) -> None:
    text = str(FailureId.inbox(message_id, consumer))
    assert text.isascii()
    assert not any(character.isspace() for character in text)
    assert FailureId.parse(text) == FailureId.inbox(message_id, consumer)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "outbox:",
        "outbox:0190F3A0000070008000000000000AB0",
        f"outbox:{MESSAGE}",
        f"outbox:{MESSAGE.hex}:billing",
        f"outbox:{MESSAGE.hex}\n",
        f"inbox:{MESSAGE.hex}",
        f"inbox:{MESSAGE.hex}:",
        f"inbox:{MESSAGE.hex}:a b",
        f"inbox:{MESSAGE.hex}:%ff",
        f"inbox:{MESSAGE.hex}:%c3%bc",
        f"inbox:{MESSAGE.hex}:\ud800",
        f"inbox:{MESSAGE.hex}:%00",
        f"inbox:{MESSAGE.hex}:%20",
        f"inbox:{MESSAGE.hex}:{'a' * 201}",
        f"jobs:{MESSAGE.hex}",
    ],
)
def test_anything_else_is_refused_with_the_expected_form(text: str) -> None:
    with pytest.raises(FailureIdError, match=r"expected outbox:\{32 hex digits\}"):
        FailureId.parse(text)
