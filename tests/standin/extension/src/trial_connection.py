"""Nodes that hand on what cannot be written: an open session."""

import knime.extension as knext
from trial_base import as_table, category


class SessionSpec(knext.PortObjectSpec):
    def __init__(self, server):
        self.server = server

    def serialize(self):
        return {"server": self.server}

    @classmethod
    def deserialize(cls, data):
        return cls(data["server"])


class Session(knext.ConnectionPortObject):
    def __init__(self, spec, log):
        super().__init__(spec)
        self.log = log

    def to_connection_data(self):
        return self.log

    @classmethod
    def from_connection_data(cls, spec, data):
        return cls(spec, data)


session = knext.port_type("Session", Session, SessionSpec)


@knext.node("Open", knext.NodeType.SOURCE, "icons/icon.png", category)
@knext.output_port("Session", "an open session", session)
class Open:
    """Opens a session.

    It stays in the process.
    """

    def configure(self, ctx):
        return SessionSpec("here")

    def execute(self, ctx):
        return Session(SessionSpec("here"), ["opened"])


@knext.node("Use", knext.NodeType.SINK, "icons/icon.png", category)
@knext.input_port("Session", "an open session", session)
@knext.output_table("Out", "what happened in it")
class Use:
    """Uses a session.

    The data is the other node's own.
    """

    def configure(self, ctx, spec):
        ctx.set_warning(spec.server)
        return

    def execute(self, ctx, opened):
        opened.log.append(f"used {opened.spec.server}")
        return as_table(opened.log, opened.log)
