"""Expressions that are not taken are refused with their field and the rule, and nothing else ever happens."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.schedule.errors import CronError, ScheduleError
from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.cron_expression import CronExpression
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy
from uow.errors import FixTheCodeError
from uow.ticks import UtcInstant

NOW = UtcInstant.parse("2026-06-15T12:00:00Z")

REFUSED = [
    ("0 0 LW * *", "day of month", "last weekday"),
    ("0 0 0 LW * ?", "day of month", "last weekday"),
    ("0 0 0 WL * ?", "day of month", "last weekday"),
    ("0 0 L-3 * *", "day of month", "counted from the last"),
    ("0 0 0 L-1 * ?", "day of month", "counted from the last"),
    ("0 0 1-L * *", "day of month", "counted from the last"),
    ("0 0 1W,15W * *", "day of month", "W takes one day"),
    ("0 0 0 1,15W * ?", "day of month", "W takes one day"),
    ("0 0 1-5W * *", "day of month", "W takes one day"),
    ("0 0 LW,3 * *", "day of month", "W takes one day"),
    ("0 0 32W * *", "day of month", "not between 1 and 31"),
    ("0 0 W15 * *", "day of month", "like 15W"),
    ("0 0 WED * *", "day of month", "like 15W"),
    ("0 0 ? * ?", "day of month", "both day fields"),
    ("0 0 0 ? * ?", "day of month", "both day fields"),
    ("0 0 0 1 * MON", "day of month", "only one of them"),
    ("0 0 0 */2 * MON", "day of month", "only one of them"),
    ("0 0 0 1-31 * 2 2030", "day of month", "only one of them"),
    ("0 0 */2 * MON", "day of month", "read in two ways"),
    ("0 0 1 * */2", "day of week", "read in two ways"),
    ("59/15 * * * *", "minute", "begins at the last value"),
    ("0,59/2 * * * *", "minute", "begins at the last value"),
    ("59/5 * * * * ?", "second", "begins at the last value"),
    ("0 23/2 * * *", "hour", "begins at the last value"),
    ("0 0 31/2 * *", "day of month", "begins at the last value"),
    ("0 0 1 12/3 *", "month", "begins at the last value"),
    ("0 0 1 DEC/3 *", "month", "begins at the last value"),
    ("0 0 * * 6/2", "day of week", "begins at the last value"),
    ("0 0 * * 7/2", "day of week", "begins at the last value"),
    ("0 0 0 ? * SAT/2", "day of week", "begins at the last value"),
    ("0 0 0 1 1 ? 2099/1", "year", "begins at the last value"),
    ("0 0 30 2 *", "day of month", "never come"),
    ("0 0 30,31 FEB *", "day of month", "never come"),
    ("0 0 31 2,4,6,9,11 *", "day of month", "never come"),
    ("0 0 30 2 MON", "day of month", "never come"),
    ("0 0 0 29 2 ? 2027", "day of month", "never come"),
    ("0 0 0 29 2 ? 2100-2103", "year", "not between 1970 and 2099"),
    ("0 0 0 ? 2 MON#5 2045-2071", "day of week", "never come"),
    ("0 0 0 1 1 ? 2025", "year", "past"),
    ("0 0 0 1 1 ? 1970-2025", "year", "past"),
    ("0 0 0 1 1 ? 2026", "year", "past"),
    ("", "expression", "0 fields"),
    ("   ", "expression", "0 fields"),
    ("* * * *", "expression", "4 fields"),
    ("* * * * * * * *", "expression", "8 fields"),
    ("* " * 300, "expression", "at most 512"),
    ("0 0 1 1 *\0", "expression", "takes only"),
    ("0 0 1 1 \u0661", "expression", "takes only"),
    ("\uff10 0 1 1 *", "expression", "takes only"),
    ("0\xa00 1 1 *", "expression", "takes only"),
    ("0 0 1 1 *\n", "expression", "takes only"),
    ("0 0 1 \u0131an *", "expression", "takes only"),
    ("@daily", "expression", "nicknames"),
    (" @reboot", "expression", "nicknames"),
    ("H * * * *", "minute", "'H' is not a value"),
    ("0 R * * *", "hour", "'R' is not a value"),
    ("h/15 * * * *", "minute", "'H/15' is not a value"),
    ("H(0-29) * * * *", "expression", "takes only"),
    ("60 * * * *", "minute", "60 is not between 0 and 59"),
    ("0 24 * * *", "hour", "24 is not between 0 and 23"),
    ("0 0 0 * *", "day of month", "0 is not between 1 and 31"),
    ("0 0 1 0 *", "month", "0 is not between 1 and 12"),
    ("0 0 1 13 *", "month", "13 is not between 1 and 12"),
    ("0 0 * * 8", "day of week", "8 is not between 0 and 7"),
    ("0 0 0 ? * 0", "day of week", "0 is not between 1 and 7"),
    ("0 0 0 ? * 8", "day of week", "8 is not between 1 and 7"),
    ("0 0 0 ? * 0#1", "day of week", "0 is not between 1 and 7"),
    ("0 0 0 1 1 ? 1969", "year", "not between 1970 and 2099"),
    ("0 0 0 1 1 ? 2030-2028", "year", "backwards"),
    ("0 22-4/2 * * *", "hour", "backwards"),
    ("*/0 * * * *", "minute", "a step of 0"),
    ("*/60 * * * *", "minute", "a step of 60"),
    ("0 */24 * * *", "hour", "a step of 24"),
    ("0 0 * * */7", "day of week", "a step of 7"),
    ("1/9999 * * * *", "minute", "a step of 9999"),
    ("*,5 * * * *", "minute", "stands alone"),
    ("*-5 * * * *", "minute", "begins with *"),
    ("1,,2 * * * *", "minute", "'' is not a value"),
    ("-1 * * * *", "minute", "'-1' is not a value"),
    ("1-2-3 * * * *", "minute", "'1-2-3' is not a value"),
    ("1/2/3 * * * *", "minute", "'1/2/3' is not a value"),
    ("00001 * * * *", "minute", "'00001' is not a value"),
    ("JAN * * * *", "minute", "'JAN' is not a number"),
    ("0 0 1 MON *", "month", "'MON' is not one of JAN"),
    ("0 0 * * JAN", "day of week", "'JAN' is not one of SUN"),
    ("? * * * *", "minute", "two day fields"),
    ("0 0 1 ? *", "month", "two day fields"),
    ("0 0 1,? * *", "day of month", "'?' is not a value"),
    ("0 0 * * ?/2", "day of week", "'?/2' is not a value"),
    ("0 0 * * L", "day of week", "SATL"),
    ("0 0 0 ? * L", "day of week", "SATL"),
    ("0 0 0 ? * L-2", "day of week", "neither an n-th weekday"),
    ("0 0 * * MON#0", "day of week", "#1 to #5"),
    ("0 0 * * MON#6", "day of week", "#1 to #5"),
    ("0 0 * * MON-FRI#1", "day of week", "neither an n-th weekday"),
    ("0 0 * * *#1", "day of week", "neither an n-th weekday"),
    ("0 0 * * MON#1,TUE", "day of week", "do not mix"),
    ("0 L * * *", "hour", "'L' is not a value"),
    ("0 0 1 L *", "month", "'L' is not a value"),
    ("15W * * * *", "minute", "'15W' is not a value"),
    ("0 0 1#2 * *", "day of month", "'1#2' is not a value"),
]


@pytest.mark.parametrize(("text", "field", "rule"), REFUSED, ids=[repr(text)[:40] for text, _, _ in REFUSED])
def test_a_refusal_names_the_field_and_the_rule(text: str, field: str, rule: str) -> None:
    after = UtcInstant.parse("2027-06-01T00:00:00Z") if text.endswith("? 2026") else NOW
    with pytest.raises(CronError) as refused:
        CronSchedule.parse(text, after=after)
    assert refused.value.field == field
    assert rule in refused.value.rule
    assert f"{field}: " in str(refused.value)
    assert isinstance(refused.value, FixTheCodeError)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("value", [None, 5, b"* * * * *", ["*"]])
def test_only_text_is_an_expression(value: object) -> None:
    with pytest.raises(CronError, match="must be text"):
        CronSchedule.parse(value, after=NOW)  # type: ignore[arg-type]


def test_an_error_is_one_short_line_of_ascii_whatever_was_given() -> None:
    for text in ("\0\n\ud800\u0661" * 100, "9" * 500, "* * * * " + "x" * 400):
        with pytest.raises(CronError) as refused:
            CronExpression(text)
        assert len(str(refused.value)) < 300
        assert str(refused.value).isascii()
        assert str(refused.value).isprintable()


def test_a_refusal_can_be_sent_between_processes() -> None:
    with pytest.raises(CronError) as refused:
        CronExpression("61 * * * *")
    other = pickle.loads(pickle.dumps(refused.value))
    assert (str(other), other.expression, other.field) == (str(refused.value), "61 * * * *", "minute")
    plain = pickle.loads(pickle.dumps(ScheduleError("interval", "is bad")))
    assert str(plain) == "interval: is bad"


def test_an_expression_that_was_stored_is_read_although_its_years_are_over() -> None:
    stored = CronExpression("0 0 0 1 1 ? 2025")
    with pytest.raises(CronError, match="past"):
        CronExpression.parse(stored.text)
    assert CronExpression.parse(stored.text, after=UtcInstant.parse("2024-12-01T00:00:00Z")) == stored


def test_a_year_that_just_ended_in_utc_may_still_last_in_the_zone() -> None:
    CronExpression.parse("0 0 23 31 12 ? 2025", after=UtcInstant.parse("2026-01-01T04:00:00Z"))


@pytest.mark.parametrize("option", ["gap", "fold"])
def test_a_policy_that_does_not_exist_is_refused_and_one_by_its_text_is_taken(option: str) -> None:
    with pytest.raises(ScheduleError, match=f"{option} policy: must be one of .*, not 'sometimes'"):
        CronSchedule.parse("0 0 * * *", after=NOW, **{option: "sometimes"})  # type: ignore[arg-type]
    taken = CronSchedule.parse("0 0 * * *", after=NOW, gap="skip", fold="both")  # type: ignore[arg-type]
    assert taken == CronSchedule.parse("0 0 * * *", after=NOW, gap=GapPolicy.SKIP, fold=FoldPolicy.BOTH)


_WORDS = st.sampled_from(
    ["*", "?", "0", "1", "7", "12", "59", "L", "W", "15W", "LW", "MON", "JAN", "SUN#2", "6L", "H", "2030"]
)
_TAILS = st.sampled_from(["", "-5", "-FRI", "/2", "/61", "#3", "L"])
_ITEMS = st.lists(st.tuples(_WORDS, _TAILS).map("".join), min_size=1, max_size=2).map(",".join)


@settings(max_examples=400)
@given(st.lists(_ITEMS | _WORDS, min_size=4, max_size=8).map(" ".join) | st.text(max_size=40))
def test_an_expression_is_either_refused_by_rule_or_names_instants(text: str) -> None:
    match _read(text):
        case CronError() as refused:
            assert refused.field
            assert refused.rule
        case CronSchedule() as schedule:
            following = schedule.next_after(NOW)
            assert following is None or following > NOW


def _read(text: str) -> CronSchedule | CronError:
    try:
        return CronSchedule.parse(text, time_zone="Europe/Berlin", after=NOW)
    except CronError as refused:
        return refused
