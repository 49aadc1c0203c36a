"""The ranking that the source documents describe, as the benchmark: points for substrings, nothing else.

Ten points for the description, five and three for a parameter's name and description, three and two for a
port's. The sources leave ties in the order of the registry.
"""


def sources_search(specs, query):
    """The specs that have the query as it stands, the best first."""
    wanted = query.lower()
    scored = [(_score(spec, wanted), spec) for spec in specs]
    found = [(score, spec) for score, spec in scored if score > 0]
    return [spec for _, spec in sorted(found, key=lambda entry: entry[0], reverse=True)]


def _score(spec, wanted):
    score = 10 * (wanted in f"{spec.short_description} {spec.description}".lower())
    for parameter in spec.parameters:
        score += 5 * (wanted in parameter.name.lower()) + 3 * (wanted in parameter.description.lower())
    for port in (*spec.input_ports, *spec.output_ports):
        score += 3 * (wanted in port.name.lower()) + 2 * (wanted in port.description.lower())
    return score
