"""Words that the commands share."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2 files`, `1,000 entries`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
