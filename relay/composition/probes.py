"""What the health of an App looks at, whatever runs."""

from relay.composition.database_check import DatabaseCheck
from relay.composition.parts import AppParts
from relay.composition.topology_gate import TopologyGate
from relay.health import Probe, Readiness


def probes_of(parts: AppParts, database: DatabaseCheck, topology: TopologyGate) -> list[Probe]:
    """Without database or tables it is unready; without its broker or topology it is degraded."""
    probes = [
        Probe(name="database", look=database.check_connection, otherwise=Readiness.UNREADY),
        Probe(name="tables", look=database.check_tables, otherwise=Readiness.UNREADY),
    ]
    if parts.broker is not None:
        probes += [
            Probe(name="broker", look=parts.broker.check_connection, otherwise=Readiness.DEGRADED),
            Probe(name="topology", look=topology.require, otherwise=Readiness.DEGRADED),
        ]
    return probes
