"""Joint trajectory controllers: goals and topics of trajectories, followed within tolerances."""
