"""A deployment changes when schedules run, by mappings or variables; what it may not change is refused."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from jobs.schedule.declaring.catalog import EffectiveSchedule, ScheduleCatalog, ScheduleCompositionError
from jobs.schedule.declaring.duration import read_duration
from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.declaring.override import ScheduleOverrides
from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.interval import IntervalSchedule
from relay.settings import read_settings
from uow.text import TextError
from uow.ticks import UtcInstant

NOW = UtcInstant.parse("2026-06-15T12:00:00Z")
HOUR = timedelta(hours=1)
CLEANUP = "files.orphan-cleanup"


async def work(context: ScheduleContext) -> None:
    """Does nothing, well."""


def files() -> ScheduleModule:
    """A schedule by cron, one by interval, and one that is disabled without either."""
    module = ScheduleModule("files")
    module.schedule(name=CLEANUP, cron="0 0/15 * * * ?", time_zone="Europe/Berlin")(work)
    module.schedule(name="files.archive", interval=HOUR)(work)
    module.schedule(name="files.audit", enabled=False)(work)
    return module


def by_name(values: Mapping[str, Mapping[str, object]], source: str = "deploy.toml") -> ScheduleOverrides:
    return ScheduleOverrides(source=source, values=values)


def by_variable(**variables: str) -> ScheduleOverrides:
    return ScheduleOverrides(source="the environment", variables=variables)


def composed(*overrides: ScheduleOverrides) -> ScheduleCatalog:
    return ScheduleCatalog.compose([files()], overrides, now=NOW)


def problems_of(*overrides: ScheduleOverrides, module: ScheduleModule | None = None) -> list[str]:
    with pytest.raises(ScheduleCompositionError) as refused:
        ScheduleCatalog.compose([module or files()], overrides, now=NOW)
    return list(refused.value.problems)


def cleanup_with(**fields: object) -> EffectiveSchedule:
    return composed(by_name({CLEANUP: fields}))[CLEANUP]


def test_an_override_changes_one_schedule_and_is_known_by_its_source() -> None:
    catalog = composed(by_name({CLEANUP: {"cron": "0 4 * * *"}}))
    cleanup = catalog[CLEANUP]
    assert cleanup.declaration.cron == "0 4 * * *"
    assert cleanup.trigger == CronSchedule.parse("0 4 * * *", time_zone="Europe/Berlin", after=NOW)
    assert cleanup.override_source == "deploy.toml"
    assert catalog["files.archive"].declaration.interval == HOUR
    assert catalog["files.archive"].override_source is None


def test_a_cron_takes_the_place_of_an_interval_and_the_other_way_round() -> None:
    catalog = composed(by_name({CLEANUP: {"interval": "15m"}, "files.archive": {"cron": "0 4 * * *"}}))
    assert catalog[CLEANUP].trigger == IntervalSchedule.every(timedelta(minutes=15))
    assert catalog[CLEANUP].declaration.cron is None
    assert catalog["files.archive"].trigger == CronSchedule.parse("0 4 * * *", after=NOW)
    assert catalog["files.archive"].declaration.interval is None


def test_a_deployment_disables_and_enables() -> None:
    off = composed(by_name({CLEANUP: {"enabled": False}}))[CLEANUP]
    assert not off.declaration.enabled
    assert off.trigger is not None
    on = composed(by_name({"files.audit": {"enabled": "true", "interval": "1d"}}))["files.audit"]
    assert on.declaration.enabled
    assert on.trigger == IntervalSchedule.every(timedelta(days=1))


def test_enabling_what_has_no_trigger_is_refused_and_tells_who_enabled_it() -> None:
    assert problems_of(by_variable(FILES_AUDIT__ENABLED="true")) == [
        (
            "schedule 'files.audit' (overridden by the environment): is enabled, but has neither "
            "cron nor interval"
        )
    ]


@pytest.mark.parametrize(
    ("field", "value", "meant"),
    [
        ("enabled", "false", False),
        ("enabled", " TRUE ", True),
        ("enabled", "0", False),
        ("time_zone", " America/New_York ", "America/New_York"),
        ("interval", "90s", timedelta(seconds=90)),
        ("interval", HOUR, HOUR),
        ("misfire", "catch_up", MisfirePolicy.CATCH_UP),
        ("misfire", MisfirePolicy.SKIP, MisfirePolicy.SKIP),
        ("overlap", "Queue", OverlapPolicy.QUEUE),
        ("jitter", "30", timedelta(seconds=30)),
        ("jitter", 2.5, timedelta(seconds=2.5)),
    ],
)
def test_values_are_taken_as_they_are_or_read_from_text(field: str, value: object, meant: object) -> None:
    assert getattr(cleanup_with(**{field: value}).declaration, field) == meant


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400), ("45", 45), ("1.5 H", 5400), (" 0.25s ", 0.25)],
)
def test_a_duration_is_read_with_its_unit_or_in_seconds(text: str, seconds: float) -> None:
    assert read_duration(text) == timedelta(seconds=seconds)
    assert read_duration(seconds) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value",
    ["", "soon", "-5s", "5w", "1h30m", "1e3", "999999999999d", "\u0661s", True, None, float("nan"), 1e300],
)
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="must be a duration like 90s, 15m, 2h or 1d"):
        read_duration(value)


def test_variables_spell_names_in_capitals_with_underscores() -> None:
    settings = read_settings(
        {
            "SELFMANAGED_SCHEDULES__FILES_ORPHAN_CLEANUP__CRON": "0 4 * * *",
            "SELFMANAGED_SCHEDULES__FILES_ORPHAN_CLEANUP__TIME_ZONE": "UTC",
            "SELFMANAGED_SCHEDULES__FILES_ARCHIVE__ENABLED": "false",
        }
    )
    catalog = composed(ScheduleOverrides(source="the environment", variables=settings.schedules))
    assert catalog[CLEANUP].trigger == CronSchedule.parse("0 4 * * *", after=NOW)
    assert catalog[CLEANUP].override_source == "the environment"
    assert not catalog["files.archive"].declaration.enabled
    assert catalog["files.audit"].override_source is None


def test_a_name_with_two_underscores_in_a_row_is_found_by_its_variable() -> None:
    module = ScheduleModule("files")
    module.schedule(name="a..b-", interval=HOUR)(work)
    catalog = ScheduleCatalog.compose([module], [by_variable(A__B___INTERVAL="5m")], now=NOW)
    assert catalog["a..b-"].declaration.interval == timedelta(minutes=5)


def test_a_variable_that_spells_two_names_is_refused_and_a_mapping_is_not() -> None:
    module = ScheduleModule("files")
    module.schedule(name="A_B", interval=HOUR)(work)
    module.schedule(name="a.b", interval=HOUR)(work)
    assert problems_of(by_variable(A_B__INTERVAL="5m"), module=module) == [
        (
            "override 'A_B__INTERVAL' by the environment: stands for 'A_B' and 'a.b' alike; "
            "override them by a mapping of names instead"
        )
    ]
    catalog = ScheduleCatalog.compose([module], [by_name({"A_B": {"interval": "5m"}})], now=NOW)
    assert catalog["A_B"].declaration.interval == timedelta(minutes=5)
    assert catalog["a.b"].declaration.interval == HOUR


def test_the_last_source_wins_a_field_and_all_sources_are_named() -> None:
    first = by_name({CLEANUP: {"cron": "0 5 * * *", "time_zone": "UTC", "jitter": "5s"}})
    catalog = composed(first, by_variable(FILES_ORPHAN_CLEANUP__INTERVAL="2h", FILES_ARCHIVE__JITTER="1m"))
    cleanup = catalog[CLEANUP]
    assert (cleanup.declaration.cron, cleanup.declaration.interval) == (None, timedelta(hours=2))
    assert (cleanup.declaration.time_zone, cleanup.declaration.jitter) == ("UTC", timedelta(seconds=5))
    assert cleanup.override_source == "deploy.toml and the environment"
    assert catalog["files.archive"].override_source == "the environment"


def test_an_override_saves_a_declaration_whose_years_are_over() -> None:
    module = ScheduleModule("files")
    module.schedule(name="once", cron="0 0 0 1 1 ? 2025")(work)
    for fields in ({"cron": "0 0 0 1 1 ? 2030"}, {"enabled": False}):
        assert list(ScheduleCatalog.compose([module], [by_name({"once": fields})], now=NOW)) == ["once"]


def test_the_labels_of_many_sources_are_cut_to_what_can_be_stored() -> None:
    sources = [by_name({CLEANUP: {"jitter": 1}}, source=letter * 120) for letter in "ab"]
    cleanup = composed(*sources)[CLEANUP]
    assert cleanup.override_source == f"{'a' * 120} and {'b' * 75}"


@pytest.mark.parametrize("source", ["", " ", "x" * 201, None])
def test_a_source_needs_a_label(source: Any) -> None:
    with pytest.raises(TextError, match="source must"):
        ScheduleOverrides(source=source)


READ = f"schedule '{CLEANUP}', override by deploy.toml: "
CHANGED = f"schedule '{CLEANUP}' (overridden by deploy.toml): "
OVERRIDABLE = "enabled, cron, interval, time_zone, misfire, overlap, jitter"
DURATION = "a duration like 90s, 15m, 2h or 1d, or a number of seconds"
WRONG_FIELDS: list[tuple[Any, str]] = [
    ({"timezone": "UTC"}, f"{READ}unknown field 'timezone'; did you mean 'time_zone'?"),
    (
        {"critical": False},
        f"{READ}critical belongs to the module; a deployment may override {OVERRIDABLE}",
    ),
    ("off", f"{READ}must be a mapping of fields, not str"),
    ({"enabled": "perhaps"}, f"{READ}enabled must be true or false, not 'perhaps'"),
    ({"enabled": 1}, f"{READ}enabled must be true or false, not 1"),
    ({"interval": "often"}, f"{READ}interval must be {DURATION}, not 'often'"),
    ({"jitter": True}, f"{READ}jitter must be {DURATION}, not True"),
    ({"cron": None}, f"{READ}cron must be text, not None"),
    ({"misfire": "never"}, f"{READ}misfire must be one of latest, catch_up, skip, not 'never'"),
    ({"overlap": "drop"}, f"{READ}overlap must be one of skip, queue, allow, not 'drop'"),
    ({"cron": "61 * * * *"}, f"{CHANGED}cron '61 * * * *', minute: 61 is not between 0 and 59"),
    (
        {"cron": "0 4 * * *", "interval": 60},
        f"{CHANGED}has both cron and interval; one of them must go",
    ),
    (
        {"interval": 0},
        f"{CHANGED}interval: must be a positive timedelta, not datetime.timedelta(0)",
    ),
    (
        {"interval": "1h", "jitter": "1h"},
        f"{CHANGED}jitter must be shorter than the interval, not datetime.timedelta(seconds=3600)",
    ),
]


@pytest.mark.parametrize(("fields", "problem"), WRONG_FIELDS, ids=[str(each) for each, _ in WRONG_FIELDS])
def test_a_wrong_override_is_told_with_schedule_source_and_reason(fields: Any, problem: str) -> None:
    assert problems_of(by_name({CLEANUP: fields})) == [problem]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("files.orphan-cleenup", f"did you mean '{CLEANUP}'?"),
        ("FILES.AUDIT", f"known are: files.archive, files.audit, {CLEANUP}"),
    ],
)
def test_an_override_of_no_schedule_is_refused_with_the_names_there_are(name: str, hint: str) -> None:
    assert problems_of(by_name({name: {"enabled": True}})) == [
        f"schedule '{name}', override by deploy.toml: there is no such schedule; {hint}"
    ]


@pytest.mark.parametrize(
    ("variable", "beginning", "reason"),
    [
        (
            "FILES_ORPHAN_CLEENUP__CRON",
            "",
            "there is no schedule 'FILES_ORPHAN_CLEENUP'; did you mean 'FILES_ORPHAN_CLEANUP'?",
        ),
        ("FILES_ORPHAN_CLEANUP", "", "must be SCHEDULE__FIELD"),
        (
            "FILES_ORPHAN_CLEANUP__CRONE",
            f"schedule '{CLEANUP}', ",
            "unknown field 'crone'; did you mean 'cron'?",
        ),
        (
            "FILES_ARCHIVE__ENABLED",
            "schedule 'files.archive', ",
            "enabled must be true or false, not 'no'",
        ),
    ],
)
def test_a_wrong_variable_is_told_as_it_is_spelt(variable: str, beginning: str, reason: str) -> None:
    assert problems_of(by_variable(**{variable: "no"})) == [
        f"{beginning}override '{variable}' by the environment: {reason}"
    ]


def test_two_variables_for_one_field_are_refused() -> None:
    (problem,) = problems_of(by_variable(FILES_ARCHIVE__JITTER="1s", files_archive__jitter="2s"))
    assert "'files_archive__jitter' by the environment: jitter is given twice by this source" in problem


def test_faults_of_overrides_and_declarations_are_told_at_once() -> None:
    module = files()
    module.schedule(name="files.never", cron="0 0 30 2 *")(work)
    problems = problems_of(
        by_name({"files.archives": {}, CLEANUP: {"cron": "nonsense", "enabled": "perhaps"}}),
        by_variable(FILES_ARCHIVE__OVERLAP="drop"),
        module=module,
    )
    expected = [
        "schedule 'files.archives', override by deploy.toml: there is no such schedule",
        f"schedule '{CLEANUP}', override by deploy.toml: enabled must be",
        "schedule 'files.archive', override 'FILES_ARCHIVE__OVERLAP' by the environment: overlap must be",
        f"schedule '{CLEANUP}' (overridden by deploy.toml): cron 'nonsense'",
        "schedule 'files.never': cron '0 0 30 2 *', day of month: ",
    ]
    assert len(problems) == len(expected)
    for problem, beginning in zip(problems, expected, strict=True):
        assert problem.startswith(beginning)
