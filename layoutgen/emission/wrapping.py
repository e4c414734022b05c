"""Lines of emitted source that are too long, laid out as the formatter of this repository would."""

from __future__ import annotations

import ast

WIDTH = 120
"""Characters of a line of source."""
CLOSING = {")": "(", "]": "["}


def wrapped(line: str, width: int = WIDTH) -> str:
    """Return a line, or if it is too long and a statement that ends in a bracket, with that bracket broken.

    The content goes into one line of its own if it fits there, and else an element into each. Other lines stay.

    >>> print(wrapped("row = load(first, second)", 20))
    row = load(
        first, second
    )
    >>> print(wrapped("    row = load(pair(first, second), third)", 25))
        row = load(
            pair(
                first, second
            ),
            third,
        )
    """
    text = line.strip()
    if len(line) <= width or text[-1] not in CLOSING or not _is_statement(text):
        return line
    return _broken(text, len(line) - len(line.lstrip()), width)


def _is_statement(text: str) -> bool:
    try:
        return len(ast.parse(text).body) == 1
    except SyntaxError:
        return False


def _broken(text: str, indent: int, width: int, after: int = 0) -> str:
    """Lay out a text that starts at `indent` and has `after` more characters behind it."""
    margin = " " * indent
    if indent + len(text) + after <= width or text[-1] not in CLOSING:
        return margin + text
    start = _opening(text)
    elements = _elements(text[start + 1 : -1])
    head, inner = f"{margin}{text[: start + 1]}\n", ", ".join(elements)
    if not elements:
        return margin + text
    if len(elements) == 1:
        body = _broken(inner, indent + 4, width)  # a single element gets no comma
    elif indent + 4 + len(inner) <= width and text[-1] == ")":
        body = f"{margin}    {inner}"
    else:
        body = ",\n".join(_broken(element, indent + 4, width, 1) for element in elements) + ","
    return f"{head}{body}\n{margin}{text[-1]}"


def _opening(text: str) -> int:
    """Return where the bracket opens that the last character closes."""
    depth = 0
    for position in reversed(range(len(text))):
        depth += (text[position] in CLOSING) - (text[position] in CLOSING.values())
        if depth == 0:
            return position
    raise ValueError(text)


def _elements(text: str) -> list[str]:
    """Return what commas part outside all brackets. Strings with commas or brackets do not occur in long lines."""
    found, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in CLOSING.values()) - (character in CLOSING)
        if character == "," and depth == 0:
            found.append(text[start:position].strip())
            start = position + 1
    rest = text[start:].strip()
    return [*found, rest] if rest else found
