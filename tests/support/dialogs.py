"""What a person sees in a node's dialog, from what the node tells KNIME."""


def controls(element):
    """The controls of a dialog's layout, groups opened."""
    if "scope" in element:
        yield element
    for inner in element.get("elements", []):
        yield from controls(inner)


def shown(dialog):
    """Keys of the settings that are seen at once, in their order: not advanced, not hidden by an input."""
    keys = []
    for control in controls(dialog["ui_schema"]):
        rule = control.get("rule")
        condition = rule and rule["condition"]
        if condition and condition["scope"] == "#":
            holds = condition["schema"] == {"type": ["object"]}
            if holds == (rule["effect"] == "HIDE"):
                continue
        if not control.get("options", {}).get("isAdvanced") and control["scope"].count("/") > 1:
            keys.append(control["scope"].rpartition("/")[2])
    return keys
