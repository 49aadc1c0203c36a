"""What the modules of the trial extension share."""

import knime.extension as knext

category = knext.category("/community", "trial", "Trial", "Nodes to try things with", "icons/icon.png")


def as_table(names, values):
    import pyarrow as pa

    return knext.Table.from_pyarrow(
        pa.table({"name": pa.array(names, pa.string()), "value": pa.array(values, pa.string())})
    )
