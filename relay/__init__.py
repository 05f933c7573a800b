"""The relay: processes, brokers, wiring, command line. Importing it loads no broker library."""
