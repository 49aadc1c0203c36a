"""Words that messages and pages have in common."""


def counted(number: int, noun: str) -> str:
    """Writes a number with its noun.

    Args:
        number: How many.
        noun: In the singular, with a plural in s.

    Returns:
        Such as ``1 tool`` or ``2,000 tools``.
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
