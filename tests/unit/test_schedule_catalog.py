"""The schedules of all modules are checked as a whole, and every fault is told at once with its schedule."""

import pickle
from datetime import timedelta
from typing import Any

import pytest

from jobs.schedule.declaring.catalog import ScheduleCatalog, ScheduleCompositionError
from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.interval import IntervalSchedule
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy
from uow.errors import FixTheCodeError
from uow.ticks import UtcInstant

NOW = UtcInstant.parse("2026-06-15T12:00:00Z")
HOUR = timedelta(hours=1)
NEVER = "day of month: names days that never come in these months and years"


async def work(context: ScheduleContext) -> None:
    """Does nothing, well."""


def module_with(*schedules: dict[str, Any], name: str = "files") -> ScheduleModule:
    """A module that declares these and binds an executor to each."""
    module = ScheduleModule(name)
    for fields in schedules:
        module.schedule(**fields)(work)
    return module


def problems_of(*modules: Any) -> list[str]:
    with pytest.raises(ScheduleCompositionError) as refused:
        ScheduleCatalog.compose(modules, now=NOW)
    return list(refused.value.problems)


def problems_with(**fields: Any) -> list[str]:
    """What is wrong with one schedule of an hourly interval that has these fields."""
    return problems_of(module_with({"name": "nightly", "interval": HOUR, **fields}))


def test_a_catalog_holds_the_schedules_of_all_modules_by_name() -> None:
    files = module_with(
        {"name": "files.orphan-cleanup", "cron": "30 2 * * *", "time_zone": "Europe/Berlin"},
        {"name": "files.archive", "interval": timedelta(seconds=90)},
    )
    bank = module_with(
        {"name": "bank.close", "cron": "0 0 18 ? * 6L", "gap": GapPolicy.SKIP, "fold": FoldPolicy.BOTH},
        name="bank",
    )
    catalog = ScheduleCatalog.compose([files, bank], now=NOW)
    assert list(catalog) == ["bank.close", "files.archive", "files.orphan-cleanup"]
    assert len(catalog) == 3
    assert catalog["files.archive"].trigger == IntervalSchedule.every(timedelta(seconds=90))
    assert catalog["files.archive"].declaration is files.declarations[1]
    assert catalog["files.archive"].override_source is None
    assert catalog["files.orphan-cleanup"].trigger == CronSchedule.parse(
        "30 2 * * *", time_zone="Europe/Berlin", after=NOW
    )
    assert catalog["bank.close"].trigger == CronSchedule.parse(
        "0 0 18 ? * 6L", gap=GapPolicy.SKIP, fold=FoldPolicy.BOTH, after=NOW
    )
    assert repr(catalog) == "ScheduleCatalog(bank.close, files.archive, files.orphan-cleanup)"


async def test_each_schedule_has_the_executor_bound_to_its_name_by_whatever_module() -> None:
    ran: list[str] = []
    contract, owner = ScheduleModule("files"), ScheduleModule("files")
    for name in ("files.first", "files.second"):
        contract.declare(ScheduleDeclaration(name=name, module="files", interval=HOUR))

    @owner.executor("files.second")
    async def second(context: ScheduleContext) -> None:
        ran.append("second")

    @owner.executor("files.first")
    async def first(context: ScheduleContext) -> None:
        ran.append("first")

    catalog = ScheduleCatalog.compose([contract, owner], now=NOW)
    for name in catalog:
        await catalog[name].executor.execute(None)  # type: ignore[arg-type]
    assert ran == ["first", "second"]


def test_no_modules_make_an_empty_catalog() -> None:
    assert dict(ScheduleCatalog.compose([])) == {}


def test_a_disabled_schedule_may_have_no_trigger_and_keeps_its_executor() -> None:
    catalog = ScheduleCatalog.compose([module_with({"name": "nightly", "enabled": False})], now=NOW)
    assert catalog["nightly"].trigger is None
    assert not catalog["nightly"].declaration.enabled
    assert catalog["nightly"].executor is not None


def test_a_disabled_schedule_may_lie_in_the_past_but_must_be_readable() -> None:
    past = {"name": "once", "cron": "0 0 0 1 1 ? 2025"}
    assert problems_of(module_with(past)) == [
        "schedule 'once': cron '0 0 0 1 1 ? 2025', year: lies wholly in the past"
    ]
    catalog = ScheduleCatalog.compose([module_with({**past, "enabled": False})], now=NOW)
    assert catalog["once"].trigger is not None
    assert problems_of(module_with({"name": "once", "cron": "0 0 30 2 *", "enabled": False})) == [
        f"schedule 'once': cron '0 0 30 2 *', {NEVER}"
    ]


def test_what_is_due_only_after_the_present_is_decided_by_the_present_that_is_given() -> None:
    module = module_with({"name": "once", "cron": "0 0 0 1 1 ? 2025"})
    catalog = ScheduleCatalog.compose([module], now=UtcInstant.parse("2024-06-01T00:00:00Z"))
    assert list(catalog) == ["once"]


@pytest.mark.parametrize("enabled", [True, False])
def test_cron_and_interval_together_are_refused(enabled: bool) -> None:
    assert problems_with(cron="0 4 * * *", enabled=enabled) == [
        "schedule 'nightly': has both cron and interval; one of them must go"
    ]


def test_an_enabled_schedule_without_cron_and_interval_is_refused() -> None:
    assert problems_of(module_with({"name": "nightly"})) == [
        "schedule 'nightly': is enabled, but has neither cron nor interval"
    ]


@pytest.mark.parametrize(
    ("cron", "fault"),
    [
        ("61 * * * *", "cron '61 * * * *', minute: 61 is not between 0 and 59"),
        ("0 0 31 4 *", NEVER),
        ("0 0 LW * *", "day of month: "),
        ("0 0 0 1 * MON", "with seconds first only one of them may be"),
        ("", "has 0 fields"),
        (5, "must be text, not int"),
    ],
)
def test_a_bad_cron_is_told_with_its_field_and_rule(cron: Any, fault: str) -> None:
    (problem,) = problems_of(module_with({"name": "nightly", "cron": cron}))
    assert problem.startswith("schedule 'nightly': cron ")
    assert fault in problem


@pytest.mark.parametrize("timing", [{"cron": "0 4 * * *"}, {"interval": HOUR}])
@pytest.mark.parametrize("zone", ["Europe/Atlantis", "../etc/passwd", "localtime", 5])
def test_an_unknown_zone_is_refused(timing: dict[str, Any], zone: Any) -> None:
    (problem,) = problems_of(module_with({"name": "nightly", **timing, "time_zone": zone}))
    assert problem.startswith("schedule 'nightly': time zone: ")


@pytest.mark.parametrize("interval", [timedelta(0), -HOUR, 60])
def test_an_interval_that_is_not_positive_is_refused(interval: Any) -> None:
    assert problems_with(interval=interval) == [
        f"schedule 'nightly': interval: must be a positive timedelta, not {interval!r}"
    ]


def test_a_cron_that_is_too_long_to_be_stored_with_its_zone_is_refused() -> None:
    sixty, hours = (",".join(map(str, range(count))) for count in (60, 24))
    cron = f"{sixty} {sixty} {hours} ? JAN,FEB,MAR,APR,MAY,JUN MON"
    assert len(cron) == 431
    schedule = {"name": "nightly", "time_zone": "America/Argentina/ComodRivadavia"}
    assert problems_of(module_with({**schedule, "cron": cron})) == [
        "schedule 'nightly': cron: has 431 characters; with this time zone at most 430 can be stored"
    ]
    shorter = module_with({**schedule, "cron": cron.replace("0,1,2,3,4", "0,1-3,4", 1)})
    assert list(ScheduleCatalog.compose([shorter], now=NOW)) == ["nightly"]


RANGES = [
    ("module", "", "module must not be blank"),
    ("enabled", "yes", "enabled must be True or False, not 'yes'"),
    ("critical", 1, "critical must be True or False, not 1"),
    ("source", None, "source must be text, not NoneType"),
    ("description", 5, "description must be text, not int"),
    ("misfire", "sometimes", "misfire must be one of latest, catch_up, skip, not 'sometimes'"),
    ("overlap", None, "overlap must be one of skip, queue, allow, not None"),
    ("gap", "run", "gap must be one of run_after, skip, not 'run'"),
    ("fold", "last", "fold must be one of first, both, not 'last'"),
    ("misfire_grace", -HOUR, "misfire_grace must be a timedelta that is not negative, not "),
    ("misfire_grace", 60, "misfire_grace must be a timedelta that is not negative, not 60"),
    ("catch_up_limit", 0, "catch_up_limit must be a whole number, 1 to 10000, not 0"),
    ("catch_up_limit", 10_001, "catch_up_limit must be a whole number, 1 to 10000, not 10001"),
    ("catch_up_limit", True, "catch_up_limit must be a whole number, 1 to 10000, not True"),
    ("catch_up_age", timedelta(0), "catch_up_age must be a positive timedelta, not "),
    ("jitter", -HOUR, "jitter must be a timedelta from 0 to 1 day, not "),
    ("jitter", timedelta(days=1, seconds=1), "jitter must be a timedelta from 0 to 1 day, not "),
    ("jitter", HOUR, "jitter must be shorter than the interval, not "),
    ("jitter", 5, "jitter must be a timedelta from 0 to 1 day, not 5"),
    ("succeed_within", timedelta(0), "succeed_within must be a positive timedelta or None, not "),
    ("queue", "a queue", "queue must be 1 to 128 characters of A-Z a-z 0-9 . _ -"),
    ("max_attempts", 0, "max_attempts must be a whole number, 1 to 100, not 0"),
    ("max_attempts", 101, "max_attempts must be a whole number, 1 to 100, not 101"),
    ("priority", -101, "priority must be a whole number, -100 to 100, not -101"),
]


@pytest.mark.parametrize(("field", "value", "fault"), RANGES, ids=[f"{f}={v!r}" for f, v, _ in RANGES])
def test_a_field_out_of_its_range_is_told_with_its_value_and_rule(field: str, value: Any, fault: str) -> None:
    fields = {"name": "nightly", "module": "files", "interval": HOUR, field: value}
    module = ScheduleModule(fields["module"])
    module.declare(ScheduleDeclaration(**fields))
    module.execute("nightly", work)
    (problem,) = problems_of(module)
    assert problem.startswith(f"schedule 'nightly': {fault}")


@pytest.mark.parametrize("policy", ["gap", "fold"])
def test_a_wrong_policy_of_a_cron_is_told_once(policy: str) -> None:
    (problem,) = problems_of(module_with({"name": "nightly", "cron": "0 4 * * *", policy: "sometimes"}))
    assert problem.startswith(f"schedule 'nightly': {policy} must be one of")


def test_the_limits_themselves_are_taken() -> None:
    limits = {
        "misfire_grace": timedelta(0),
        "catch_up_limit": 10_000,
        "jitter": timedelta(days=1),
        "max_attempts": 100,
        "priority": -100,
    }
    module = module_with({"name": "n" * 100, "cron": "0 4 * * *", **limits}, name="m" * 200)
    assert list(ScheduleCatalog.compose([module], now=NOW)) == ["n" * 100]


@pytest.mark.parametrize("name", ["", "a b", "n" * 101, "n\xe4chtlich", "a/b", 5, None, ["a"]])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    problems = problems_of(module_with({"name": name, "interval": HOUR}))
    (told,) = [each for each in problems if "name must be 1 to 100 characters" in each]
    assert told.startswith(f"schedule {ascii(name)[:80]}")


def test_a_name_that_is_declared_twice_is_told_with_the_modules() -> None:
    first = module_with({"name": "nightly", "interval": HOUR})
    second = ScheduleModule("bank")
    second.declare(ScheduleDeclaration(name="nightly", module="bank", interval=HOUR))
    assert problems_of(first, second) == [
        "schedule 'nightly': is declared 2 times (by 'bank', 'files'); a name stands for one schedule"
    ]


def test_names_compare_by_code_point() -> None:
    module = module_with({"name": "Audit", "interval": HOUR}, {"name": "audit", "interval": HOUR})
    assert list(ScheduleCatalog.compose([module], now=NOW)) == ["Audit", "audit"]


def test_a_schedule_without_executor_is_refused_even_when_it_is_disabled() -> None:
    module = ScheduleModule("files")
    module.declare(ScheduleDeclaration(name="nightly", module="files", enabled=False))
    assert problems_of(module) == [
        (
            "schedule 'nightly': has no executor; decorate the function that does its work "
            "with @module.executor('nightly')"
        )
    ]


def test_an_executor_of_no_schedule_is_refused_with_the_name_that_was_meant() -> None:
    module = module_with({"name": "files.orphan-cleanup", "interval": HOUR})
    module.execute("files.orphan-cleenup", work)
    assert problems_of(module) == [
        (
            "schedule 'files.orphan-cleenup': has an executor, but is declared nowhere; "
            "did you mean 'files.orphan-cleanup'?"
        )
    ]


def test_two_executors_of_one_schedule_are_refused() -> None:
    module = module_with({"name": "nightly", "interval": HOUR})
    module.execute("nightly", work)
    assert problems_of(module) == ["schedule 'nightly': has 2 executors; one of them must go"]


def test_an_executor_that_cannot_be_called_is_told_with_its_schedule() -> None:
    module = ScheduleModule("files")
    module.schedule(name="nightly", interval=HOUR)(print)  # type: ignore[type-var]
    (problem,) = problems_of(module)
    assert problem.startswith("schedule 'nightly': its executor must be `async def`")


def test_a_declaration_of_another_module_is_refused() -> None:
    module = ScheduleModule("files")
    module.declare(ScheduleDeclaration(name="nightly", module="bank", interval=HOUR))
    module.execute("nightly", work)
    assert problems_of(module) == [
        "schedule 'nightly': is declared by module 'files', but says that it belongs to 'bank'"
    ]


def test_what_is_no_module_or_no_declaration_is_refused() -> None:
    module = ScheduleModule("files")
    module.declare("nightly")  # type: ignore[arg-type]
    assert problems_of(module, module, "files") == [
        "module 'files' of schedules is given twice",
        "modules of schedules must be ScheduleModule objects, not str",
        "module 'files' declares a str, which is no ScheduleDeclaration",
    ]


def test_all_faults_of_all_modules_are_told_at_once() -> None:
    files = module_with(
        {"name": "files.broken", "cron": "61 * * * *", "time_zone": "Europe/Atlantis", "jitter": -HOUR},
        {"name": "files.both", "cron": "0 4 * * *", "interval": HOUR, "priority": 500},
        {"name": "files.never", "cron": "0 0 30 2 *"},
    )
    bank = module_with({"name": "bank.close"}, {"name": "files.never", "interval": HOUR}, name="bank")
    bank.declare(ScheduleDeclaration(name="bank.open", module="bank", interval=HOUR))
    bank.execute("bank.opening", work)
    problems = problems_of(files, bank)
    expected = [
        ("files.never", "is declared 2 times"),
        ("bank.open", "has no executor"),
        ("files.never", "has 2 executors"),
        ("bank.opening", "has an executor, but is declared nowhere"),
        ("files.broken", "jitter must be"),
        ("files.broken", "time zone: 'Europe/Atlantis' is not in the time zone database"),
        ("files.broken", "cron '61 * * * *', minute: "),
        ("files.both", "priority must be"),
        ("files.both", "has both cron and interval"),
        ("files.never", "cron '0 0 30 2 *', day of month: "),
        ("bank.close", "is enabled, but has neither cron nor interval"),
    ]
    assert len(problems) == len(expected)
    for problem, (name, reason) in zip(problems, expected, strict=True):
        assert problem.startswith(f"schedule '{name}': {reason}")


def test_the_error_lists_every_problem_and_survives_another_process() -> None:
    error = ScheduleCompositionError(["schedule 'a': is bad", "schedule 'b': is worse"])
    assert isinstance(error, FixTheCodeError)
    assert str(error) == (
        "these schedules cannot be hosted: \n  - schedule 'a': is bad\n  - schedule 'b': is worse"
    )
    other = pickle.loads(pickle.dumps(error))
    assert (str(other), other.problems) == (str(error), error.problems)
