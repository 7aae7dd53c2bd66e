"""Time: the bridge's clock, and simulation time for others where the backend owns it."""
