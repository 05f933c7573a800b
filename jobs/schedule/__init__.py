"""Schedules: declarations of modules, the host that turns slots into jobs, and what long work stands on."""

from jobs.schedule.action import ActionKind, RecordedAction
from jobs.schedule.batch import Batch, BatchReport, SourceError
from jobs.schedule.batches import run_batches
from jobs.schedule.catalog import EffectiveSchedule, ScheduleCatalog, ScheduleCompositionError
from jobs.schedule.cause import Cause
from jobs.schedule.client import Schedules
from jobs.schedule.context import ScheduleContext
from jobs.schedule.control import PauseAnswer
from jobs.schedule.cron import CronSchedule
from jobs.schedule.cursor import BatchCursor, CursorMovedError
from jobs.schedule.declaration import ScheduleDeclaration
from jobs.schedule.errors import CronError, ScheduleError, UnknownScheduleError
from jobs.schedule.executor import ScheduleExecutor, ScheduleExecutorError
from jobs.schedule.ground import SCOPE
from jobs.schedule.held_lease import HeldLease
from jobs.schedule.interval import IntervalSchedule
from jobs.schedule.lease_error import LeaseHeldError, LeaseLostError
from jobs.schedule.module import ScheduleModule
from jobs.schedule.named_lease import NamedLeases
from jobs.schedule.options import ScheduleOptions
from jobs.schedule.override import ScheduleOverrides
from jobs.schedule.policy import FoldPolicy, GapPolicy
from jobs.schedule.report import ScheduleReport, ScheduleRow
from jobs.schedule.result import ScheduleResult
from jobs.schedule.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.run_record import RunRecord
from jobs.schedule.table import SchedulesNotMappedError, add_schedule_tables
from jobs.schedule.tenant_report import TenantReport, TenantsFailedError
from jobs.schedule.tenant_scope import ForeignTenantError, TenantScope, current_tenant
from jobs.schedule.tenants import TenantListError, for_each_tenant
from jobs.schedule.trigger import Trigger, upcoming

__all__ = [
    "SCOPE",
    "ActionKind",
    "Batch",
    "BatchCursor",
    "BatchReport",
    "Cause",
    "CronError",
    "CronSchedule",
    "CursorMovedError",
    "EffectiveSchedule",
    "FoldPolicy",
    "ForeignTenantError",
    "GapPolicy",
    "HeldLease",
    "IntervalSchedule",
    "LeaseHeldError",
    "LeaseLostError",
    "MisfirePolicy",
    "NamedLeases",
    "OverlapPolicy",
    "PauseAnswer",
    "RecordedAction",
    "RunRecord",
    "ScheduleCatalog",
    "ScheduleCompositionError",
    "ScheduleContext",
    "ScheduleDeclaration",
    "ScheduleError",
    "ScheduleExecutor",
    "ScheduleExecutorError",
    "ScheduleModule",
    "ScheduleOptions",
    "ScheduleOverrides",
    "ScheduleReport",
    "ScheduleResult",
    "ScheduleRow",
    "Schedules",
    "SchedulesNotMappedError",
    "SourceError",
    "TenantListError",
    "TenantReport",
    "TenantScope",
    "TenantsFailedError",
    "Trigger",
    "UnknownScheduleError",
    "add_schedule_tables",
    "current_tenant",
    "for_each_tenant",
    "run_batches",
    "upcoming",
]
