"""Schedules: declarations of modules, the host that turns slots into jobs, and what long work stands on."""

from jobs.schedule.batching.batch import Batch, BatchReport, SourceError
from jobs.schedule.batching.batches import run_batches
from jobs.schedule.batching.cursor import BatchCursor, CursorMovedError
from jobs.schedule.batching.tenant_report import TenantReport, TenantsFailedError
from jobs.schedule.batching.tenant_scope import ForeignTenantError, TenantScope, current_tenant
from jobs.schedule.batching.tenants import TenantListError, for_each_tenant
from jobs.schedule.declaring.catalog import EffectiveSchedule, ScheduleCatalog, ScheduleCompositionError
from jobs.schedule.declaring.declaration import ScheduleDeclaration
from jobs.schedule.declaring.executor import ScheduleExecutor, ScheduleExecutorError
from jobs.schedule.declaring.module import ScheduleModule
from jobs.schedule.declaring.override import ScheduleOverrides
from jobs.schedule.declaring.result import ScheduleResult
from jobs.schedule.declaring.run_policy import MisfirePolicy, OverlapPolicy
from jobs.schedule.errors import CronError, ScheduleError, UnknownScheduleError
from jobs.schedule.hosting.client import Schedules
from jobs.schedule.hosting.context import ScheduleContext
from jobs.schedule.hosting.options import ScheduleOptions
from jobs.schedule.hosting.report import ScheduleReport, ScheduleRow
from jobs.schedule.leasing.held_lease import HeldLease
from jobs.schedule.leasing.lease_error import LeaseHeldError, LeaseLostError
from jobs.schedule.leasing.named_lease import NamedLeases
from jobs.schedule.occurrence.cron import CronSchedule
from jobs.schedule.occurrence.interval import IntervalSchedule
from jobs.schedule.occurrence.policy import FoldPolicy, GapPolicy
from jobs.schedule.occurrence.trigger import Trigger, upcoming
from jobs.schedule.storing.action import ActionKind, RecordedAction
from jobs.schedule.storing.cause import Cause
from jobs.schedule.storing.control import PauseAnswer
from jobs.schedule.storing.ground import SCOPE
from jobs.schedule.storing.run_record import RunRecord
from jobs.schedule.storing.table import SchedulesNotMappedError, add_schedule_tables

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
