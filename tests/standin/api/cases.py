"""All cases by name: those of the API alone or of a table, and those of a running node."""

from tests.standin.api import (
    classes,
    columns,
    contexts,
    dialogs,
    groups,
    kinds,
    making,
    parameters,
    schemas,
    tables,
)


def _named(**groups):
    return {f"{group}, {name}": case for group, cases in groups.items() for name, case in cases.items()}


#: Given the API and a table with the columns a (int), b (text) and c (number), and three rows.
CASES = _named(
    parameter=parameters.PARAMETERS,
    group=groups.GROUPS,
    dialog=dialogs.DIALOGS,
    schema=schemas.SCHEMAS,
    column=schemas.COLUMNS,
    document=schemas.WRITTEN,
    type=kinds.TYPES,
    kind=kinds.KINDS,
    table=tables.TABLES,
    **{"class": classes.CLASSES},
    spec=classes.SPECS,
    factory=kinds.FACTORIES,
    own_context=contexts.OWN_CONTEXTS,
)
#: Given the API, and the context and the input of a node that executes.
RUNNING = _named(making=making.TABLES, batch=tables.BATCHES, context=contexts.CONTEXTS, arrow=columns.ARROW)
