"""Limits hold at their exact boundary and refuse one past it, in UTF-16 units and in UTF-8 bytes."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uow import text
from uow.errors import FixTheCodeError
from uow.text import TextError

EMOJI = "\U0001f600"
ANY_TEXT = st.text(st.characters(codec=None), max_size=40)

UNIT_LIMITS = [
    (text.check_contract_name, 200),
    (text.check_consumer_name, 200),
    (text.check_correlation_id, 200),
    (text.check_traceparent, 128),
    (text.check_tracestate, 512),
    (text.check_ordering_key, 200),
]
by_name = pytest.mark.parametrize(
    ("check", "units"), UNIT_LIMITS, ids=[check.__name__ for check, _ in UNIT_LIMITS]
)


@by_name
def test_the_last_unit_is_accepted_and_one_more_is_refused(check, units: int) -> None:
    assert check("a" * units) == "a" * units
    with pytest.raises(TextError, match=f"must have at most {units} UTF-16 units, not {units + 1}"):
        check("a" * (units + 1))


@pytest.mark.parametrize(
    ("check", "units"),
    [each for each in UNIT_LIMITS if each[0] is not text.check_correlation_id],
)
def test_an_emoji_is_one_code_point_and_two_units(check, units: int) -> None:
    assert check(EMOJI * (units // 2)) == EMOJI * (units // 2)
    with pytest.raises(TextError, match=f"not {units + 1}"):
        check("a" + EMOJI * (units // 2))


def test_257_emoji_are_514_units_and_1028_bytes() -> None:
    assert text.utf16_units(EMOJI * 257) == 514
    assert text.utf8_bytes_of(EMOJI * 257) == 1028


def test_a_correlation_id_has_at_most_255_bytes_though_it_has_few_units() -> None:
    fits = "\u00e9" * 127 + "a"
    assert text.utf8_bytes_of(fits) == 255
    assert text.check_correlation_id(fits) == fits
    with pytest.raises(TextError, match="correlation_id must have at most 255 UTF-8 bytes, not 256"):
        text.check_correlation_id("\u00e9" * 128)


def test_a_routing_key_stays_under_255_bytes() -> None:
    assert text.check_routing_key("\u20ac" * 84 + "ab")
    with pytest.raises(TextError, match="routing key must have at most 254 UTF-8 bytes, not 255"):
        text.check_routing_key("\u20ac" * 85)


def test_a_queue_name_has_at_most_240_bytes_together_with_its_prefix() -> None:
    assert text.check_queue_name("app", "c" * 236) == "app." + "c" * 236
    with pytest.raises(TextError, match="queue name must have at most 240 UTF-8 bytes, not 241"):
        text.check_queue_name("app", "c" * 237)
    with pytest.raises(TextError, match="not 242"):
        text.check_queue_name("app", "\u00e9" * 119)


@by_name
@pytest.mark.parametrize("value", ["", " ", "\t\n", "\u2003"])
def test_blank_text_is_refused(check, units: int, value: str) -> None:
    with pytest.raises(TextError, match="must not be blank"):
        check(value)


@by_name
@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("a\x00b", r"must not contain NUL \(U\+0000\)"),
        ("a\ud800b", r"must not contain a lone surrogate \(U\+D800\)"),
        ("\udfff", r"must not contain a lone surrogate \(U\+DFFF\)"),
        ("\ud83d\ude00", r"must not contain a lone surrogate \(U\+D83D\)"),
    ],
)
def test_nul_and_lone_surrogates_are_refused_everywhere(check, units: int, value: str, rule: str) -> None:
    with pytest.raises(TextError, match=rule):
        check(value, "some.field")


def test_a_queue_name_is_checked_for_nul_and_surrogates_too() -> None:
    for consumer in ("a\x00", "\ud800"):
        with pytest.raises(TextError, match="queue name must not contain"):
            text.check_queue_name("app", consumer)


@pytest.mark.parametrize("character", ["*", "#", "\n", "\x1f", "\x7f", "\x85", "\x9f"])
def test_a_contract_name_has_no_wildcards_and_no_control_characters(character: str) -> None:
    with pytest.raises(TextError, match="contract name must not contain"):
        text.check_contract_name(f"orders{character}placed")


@pytest.mark.parametrize("name", ["orders.placed", "Bestellung bezahlt", "\u6ce8\u6587", "a b", EMOJI])
def test_other_names_are_accepted(name: str) -> None:
    assert text.check_contract_name(name) == name


@pytest.mark.parametrize("value", [None, 1, b"text", ["a"]])
def test_what_is_no_text_is_refused_by_type(value: object) -> None:
    with pytest.raises(TextError, match=f"contract name must be text, not {type(value).__name__}"):
        text.check_contract_name(value)


def test_the_error_names_field_and_rule_but_never_the_text() -> None:
    with pytest.raises(TextError) as caught:
        text.check_ordering_key("secret" * 100, "orders.key")
    assert (caught.value.field, caught.value.rule) == (
        "orders.key",
        "must have at most 200 UTF-16 units, not 600",
    )
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value, FixTheCodeError)
    for twin in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert (twin.field, twin.rule, str(twin)) == (
            caught.value.field,
            caught.value.rule,
            str(caught.value),
        )


@given(ANY_TEXT)
def test_units_and_bytes_are_those_of_the_encodings(value: str) -> None:
    assert text.utf16_units(value) == len(value.encode("utf-16-le", "surrogatepass")) // 2
    assert text.utf8_bytes_of(value) == len(value.encode("utf-8", "surrogatepass"))


@given(ANY_TEXT, st.integers(0, 30))
def test_cleaned_text_can_be_stored_and_is_within_its_length(value: str, units: int) -> None:
    cleaned = text.clean_text(value, units=units)
    assert text.character_fault(cleaned) is None
    assert text.utf16_units(cleaned) <= units
    if text.character_fault(value) is None and text.utf16_units(value) <= units:
        assert cleaned == value


def test_cleaning_never_cuts_a_pair_in_half() -> None:
    assert text.clean_text(EMOJI * 600, units=1001) == EMOJI * 500
    assert text.clean_text("a\x00b\ud800c", units=10) == "a\ufffdb\ufffdc"
