"""Recording: the messages that the bridge publishes, in an MCAP file or for a server."""
