"""Chat models: the port, the settings, the endpoint, and requests to it."""
