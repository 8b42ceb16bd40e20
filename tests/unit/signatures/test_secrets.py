"""How a source's secrets are written: one, or several while one is rotated."""

import pytest

from stoppress.aws.secrets import split


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        ("whsec_AAAA", ["whsec_AAAA"]),
        (" short\n", ["short"]),
        ("old-secret new-secret", ["old-secret", "new-secret"]),
        ('["a phrase, with spaces"]', ["a phrase, with spaces"]),
        (' ["old phrase", "new phrase"]\n', ["old phrase", "new phrase"]),
    ],
)
def test_one_or_several_secrets_stand_in_a_text(text: str, secrets: list[str]) -> None:
    assert split(text) == secrets


@pytest.mark.parametrize("text", [" \n\t", "[]", '[" "]', "[7]", '{"a": "b"} [', '["a", null]', "[" * 100_000])
def test_a_text_without_secrets_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is empty|is no list of texts|looks like one phrase"):
        split(text)


@pytest.mark.parametrize("text", ["It's a Secret to Everybody", "correct horse battery staple", "newsroom a"])
def test_no_word_of_a_phrase_is_a_secret_of_its_own(text: str) -> None:
    with pytest.raises(ValueError, match="looks like one phrase with spaces: write it as a JSON list of one text"):
        split(text)
