"""The relay: processes, brokers, wiring, command line. Importing it loads no broker library."""

from relay.own_package import check_own_packages

check_own_packages()
