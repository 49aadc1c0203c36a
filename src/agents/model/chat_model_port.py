"""The port through which a chat model reaches the agent: settings only, never a secret.

The port object describes the model. The receiving node makes the model with its own access to the workflow's
credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import knime.extension as knext

from ...tools.node_settings.credentials import find_credential
from .chat_model import ChatModelSettings, create_model

if TYPE_CHECKING:
    from ...client.authorization import Authorization
    from ...tools.node_settings.credentials import Credential
    from .openai_model import EndpointModel

PORT_TYPE_ID: Final = "org.knime_mcp.mcp.ChatModel"


class ChatModelPortObjectSpec(knext.PortObjectSpec):
    """The settings of a chat model: endpoint, model and request options.

    Args:
        settings: The settings.
    """

    def __init__(self, settings: ChatModelSettings) -> None:
        self._settings = settings

    @property
    def settings(self) -> ChatModelSettings:
        """The settings."""
        return self._settings

    def check(self, ctx: Any) -> None:
        """Checks whether the model can be made, without a connection; for ``configure``.

        Raises:
            SettingInvalid: The model cannot be made, such as for a missing credential.
        """
        self.credential(ctx)

    def credential(self, ctx: Any) -> Credential | None:
        """Looks up the endpoint's credential; None for an endpoint that needs none.

        Raises:
            SettingInvalid: No credential has this name.
        """
        return find_credential(ctx, self.settings.route.credential)

    def authorization(self) -> Authorization | None:
        """The login that travels with the model, in place of a credential; None if there is no login."""
        return None

    def headers(self) -> dict[str, str]:
        """Further headers, which may hold secrets."""
        return {}

    def serialize(self) -> dict[str, Any]:
        """The settings as JSON."""
        return self._settings.to_json()

    @classmethod
    def deserialize(cls, data: dict[str, Any], java_callback: Any = None) -> ChatModelPortObjectSpec:  # noqa: ARG003
        """Reads what `serialize` wrote."""
        return cls(ChatModelSettings.from_json(data))


class ChatModelPortObject(knext.PortObject):
    """A chat model; all its data is in the spec."""

    @property
    def spec(self) -> ChatModelPortObjectSpec:
        """The spec."""
        return self._spec

    def create_model(self, ctx: Any) -> EndpointModel:
        """Makes the LangChain model with the credential of an execution context; imports LangChain.

        Raises:
            SettingInvalid: The credential is missing or cannot be sent.
        """
        spec = self.spec
        return create_model(
            spec.settings, spec.credential(ctx), authorization=spec.authorization(), headers=spec.headers()
        )

    def serialize(self) -> bytes:
        """An empty document, as the spec holds all data."""
        return b""

    @classmethod
    def deserialize(cls, spec: ChatModelPortObjectSpec, storage: bytes) -> ChatModelPortObject:  # noqa: ARG003
        """Makes the object from its spec."""
        return cls(spec)


chat_model_port_type: Final = knext.port_type(
    "Chat model", ChatModelPortObject, ChatModelPortObjectSpec, id=PORT_TYPE_ID
)
