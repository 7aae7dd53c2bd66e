"""The standard simulation interfaces (package simulation_interfaces), where the bridge owns time."""
