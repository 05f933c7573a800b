"""The relay: processes, brokers, wiring, command line. Importing it loads no broker library."""

# ruff: noqa: E402 - the check must come before the imports that a foreign module would break
from relay.composition.own_package import ForeignModuleError, check_own_packages

check_own_packages()

from relay.admin.dead_queue import DeadQueues, NoDeadQueueError
from relay.admin.failed import FailedMessages
from relay.admin.failed_message import (
    BulkProgress,
    FailedCursorError,
    FailedDetail,
    FailedFilter,
    FailedMessage,
    FailedPage,
    OperationReport,
)
from relay.admin.failure_id import FailureId, FailureIdError, FailureKind
from relay.admin.operation import Operation, OperationKind, OperationResult
from relay.admin.status import Status
from relay.app import App, AppConfigurationError, DatabaseUnavailableError, Environment, NothingToRunError
from relay.broker import (
    BrokerAddressError,
    BrokerUnavailableError,
    DeadDelivery,
    TopologyError,
    TopologyPart,
)
from relay.composition.app_options import AppOptions
from relay.composition.option_reading import OptionError
from relay.consuming.subscription import UnknownConsumerError
from relay.health import Health, HealthCheck, HealthReport, Readiness
from relay.health_server import HealthPortError, HealthServer
from relay.kombu_broker.options import BrokerOptions, TlsOptions
from relay.migration import render_item
from relay.options import RelayOptions
from relay.schema import (
    SchemaDifference,
    SchemaError,
    SchemaProblem,
    add_messaging_tables,
    check_schema,
    ddl,
    messaging_tables,
    schema_differences,
)
from relay.settings import Settings, read_settings

__all__ = [
    "App",
    "AppConfigurationError",
    "AppOptions",
    "BrokerAddressError",
    "BrokerOptions",
    "BrokerUnavailableError",
    "BulkProgress",
    "DatabaseUnavailableError",
    "DeadDelivery",
    "DeadQueues",
    "Environment",
    "FailedCursorError",
    "FailedDetail",
    "FailedFilter",
    "FailedMessage",
    "FailedMessages",
    "FailedPage",
    "FailureId",
    "FailureIdError",
    "FailureKind",
    "ForeignModuleError",
    "Health",
    "HealthCheck",
    "HealthPortError",
    "HealthReport",
    "HealthServer",
    "NoDeadQueueError",
    "NothingToRunError",
    "Operation",
    "OperationKind",
    "OperationReport",
    "OperationResult",
    "OptionError",
    "Readiness",
    "RelayOptions",
    "SchemaDifference",
    "SchemaError",
    "SchemaProblem",
    "Settings",
    "Status",
    "TlsOptions",
    "TopologyError",
    "TopologyPart",
    "UnknownConsumerError",
    "add_messaging_tables",
    "check_own_packages",
    "check_schema",
    "ddl",
    "messaging_tables",
    "read_settings",
    "render_item",
    "schema_differences",
]
