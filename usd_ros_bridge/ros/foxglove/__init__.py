"""Server for the Foxglove app: topics, parameters, services and mesh files, and messages that the app publishes."""
