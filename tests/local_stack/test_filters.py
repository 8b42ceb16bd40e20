from typing import Any

import pytest

from stoppress_cli.local.patterns import Pattern
from stoppress_cli.local.template import TemplateError

EVENT = {"source": "cms", "detail": {"site": "www.example.com", "size": 3, "tags": ["a", "b"]}}


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ({"source": ["cms"]}, True),
        ({"source": ["bus"]}, False),
        ({"source": ["bus", "cms"]}, True),
        ({"source": [{"prefix": "c"}]}, True),
        ({"source": [{"prefix": "d"}]}, False),
        ({"detail": {"site": [{"suffix": ".com"}]}}, True),
        ({"detail": {"site": [{"suffix": ".org"}]}}, False),
        ({"source": [{"anything-but": ["bus"]}]}, True),
        ({"source": [{"anything-but": "cms"}]}, False),
        ({"source": [{"anything-but": {"prefix": "c"}}]}, False),
        ({"detail": {"site": [{"exists": True}]}}, True),
        ({"detail": {"title": [{"exists": True}]}}, False),
        ({"detail": {"title": [{"exists": False}]}}, True),
        ({"detail": {"size": [{"numeric": [">", 2, "<=", 3]}]}}, True),
        ({"detail": {"size": [{"numeric": [">", 3]}]}}, False),
        ({"detail": {"tags": ["b"]}}, True),
        ({"source": ["cms"], "detail": {"size": [4]}}, False),
    ],
)
def test_a_pattern_is_evaluated(pattern: dict[str, Any], matches: bool) -> None:
    assert Pattern(pattern, "here").matches(EVENT) is matches


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ({"source": [{"sounds-like": "cms"}]}, "sounds-like"),
        ({"source": "cms"}, "list"),
        ("{", "JSON"),
        ({"a": []}, "list"),
    ],
)
def test_a_pattern_that_cannot_be_evaluated_is_refused(pattern: Any, word: str) -> None:
    with pytest.raises(TemplateError, match=word):
        Pattern(pattern, "Rule")
