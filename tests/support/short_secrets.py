"""Values and credentials that have words in common: no credential may change any of the values."""

KEYS = ["test", "latest", "1234", "error", "wrong", "list", "=1+1", '"', "\\", "ü", " "]
WORDS = [*KEYS, "⟨secret 0123456789ab⟩"]
CREDENTIALS = ["test", "1234", "error", "wrong", "list", "text", "a", "secret"]


def some_value(chance, depth=0):
    """A random JSON value, up to four levels deep."""
    match chance.randrange(4 if depth > 2 else 6):
        case 0:
            return chance.choice([None, True, False, 1234, -5, 1.5, 0])
        case 1 | 2 | 3:
            return "".join(chance.choices(WORDS, k=chance.randrange(5)))
        case 4:
            return [some_value(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            return {chance.choice(KEYS): some_value(chance, depth + 1) for _ in range(chance.randrange(4))}


def rows_of_values(chance, rows, values):
    """Arguments for calls: many random values in each."""
    return [{"values": [some_value(chance) for _ in range(values)]} for _ in range(rows)]
