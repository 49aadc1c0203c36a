"""What a person sees in a node's dialog, from what the node tells KNIME."""


def controls(element):
    """The controls of a dialog's layout, groups opened."""
    if "scope" in element and element["type"] != "Section":
        yield element
    for inner in element.get("elements", []):
        yield from controls(inner)


def shown(dialog):
    """Keys of the settings that a fresh node shows at once, in their order."""
    return [key for _, key in drawn(dialog)]


def drawn(dialog, *, advanced=False):
    """Headings and keys as KNIME draws them: a section is a heading, and what follows belongs to it."""
    return list(_drawn(dialog["ui_schema"]["elements"], [""], advanced, dialog["data"]))


def _drawn(elements, heading, advanced, values):
    for element in elements:
        if element.get("options", {}).get("isAdvanced") and not advanced:
            continue
        if not _is_visible(element.get("rule"), values):
            continue
        if element["type"] == "Section":
            heading[0] = element["label"]
        elif "scope" in element:
            yield heading[0], element["scope"].rpartition("/")[2]
        yield from _drawn(element.get("elements", []), heading, advanced, values)


def _is_visible(rule, values):
    return rule is None or _holds(rule["condition"], values) is (rule["effect"] == "SHOW")


def _holds(condition, values):
    if "conditions" in condition:
        each = [_holds(part, values) for part in condition["conditions"]]
        return all(each) if condition["type"] == "AND" else any(each)
    if condition["scope"] == "#":
        return condition["schema"] == {"type": ["object"]}
    for name in condition["scope"].split("/properties/")[1:]:
        values = values[name]
    return values in [choice["const"] for choice in condition["schema"]["oneOf"]]
