"""A verb, a format and a service for robots of any asset."""
