"""Makes the documents from which KNIME draws the dialog of a node."""

import json
from typing import TYPE_CHECKING, Any

from knime.extension import parameter as kp
from knime.extension.contexts import DialogCreationContext, FlowVariables

from .errors import HeadlessError
from .ports import arranged, input_spec
from .run import with_parameters
from .services import Request, RunServices

if TYPE_CHECKING:
    from .host import ExtensionHost


def open_dialog(host: "ExtensionHost", request: Request) -> dict[str, Any]:
    """See `ExtensionHost.get_dialog`."""
    declared = host.declared(request.node_id)
    node = host.new_node(request.node_id)
    try:
        document = with_parameters(node, request.parameters)
        kp.inject_parameters(node, document, host.version, exclude_validations=True)
        variables = FlowVariables.of(request.flow_variables)
        context = DialogCreationContext(
            RunServices(host, request),
            variables,
            lambda given, _: arranged(declared.input_ports, given, lambda p, v: input_spec(host, p, v)),
        )
        documents = {
            "data": kp.extract_parameters(node, for_dialog=True),
            "schema": kp.extract_schema(node, host.version, context),
            "ui_schema": kp.extract_ui_schema(node, context),
        }
        return json.loads(json.dumps(documents))
    except Exception as error:
        raise HeadlessError(f"the dialog of {request.node_id} would not open: {error}") from error
