"""All cases by name: those of the API alone or of a table, and those of a running node."""

from tests.standin.api import dialogs, parameters, running, schemas


def _named(**groups):
    return {f"{group}, {name}": case for group, cases in groups.items() for name, case in cases.items()}


#: Given the API and a table with the columns a (int), b (text) and c (number), and three rows.
CASES = _named(
    parameter=parameters.PARAMETERS,
    array=parameters.ARRAYS,
    dialog=dialogs.DIALOGS,
    schema=schemas.SCHEMAS,
    document=schemas.DOCUMENTS,
    type=schemas.TYPES,
    table=schemas.TABLES,
    declared=schemas.DECLARED,
)
#: Given the API, and the context and the input of a node that executes.
RUNNING = _named(table=running.TABLES, column=running.COLUMNS, context=running.CONTEXTS)
