"""Settings that several nodes share: the connection, the credentials, and which tools a dialog offers."""
