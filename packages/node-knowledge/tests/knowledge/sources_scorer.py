"""The ranking that the source documents describe, as the benchmark: points for substrings, nothing else.

Ten points for the description, five and three for a parameter's name and description, three and two for a
port's. The sources leave ties in the order of the registry.
"""


class SourcesScorer:
    def __init__(self, specs):
        self._texts = [(spec, list(_texts(spec))) for spec in specs]

    def search(self, query):
        """The specs that have the query as it stands, the best first."""
        wanted = query.lower()
        scored = [
            (sum(points for points, text in texts if wanted in text), spec) for spec, texts in self._texts
        ]
        found = [(score, spec) for score, spec in scored if score > 0]
        return [spec for _, spec in sorted(found, key=lambda entry: entry[0], reverse=True)]


def _texts(spec):
    """The texts of a spec, each with the points for a query that is in it."""
    yield 10, f"{spec.short_description} {spec.description}".lower()
    for parameter in spec.parameters:
        yield 5, parameter.name.lower()
        yield 3, parameter.description.lower()
    for port in (*spec.input_ports, *spec.output_ports):
        yield 3, port.name.lower()
        yield 2, port.description.lower()
