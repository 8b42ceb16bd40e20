"""URLs of pages: one normalised form per page (R1.4-R1.6), and a clear error for an invalid URL."""

import re
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st

from stoppress.primitives.urls import LOC_CHARACTERS_MAX, canonical, host_of, key_of

HOME = "https://www.example.com/"
URI = re.compile(r"https?://[a-z0-9._-]+(:\d+)?/(?:[A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")


@pytest.mark.parametrize(
    ("url", "spelling"),
    [
        # host, scheme, port
        ("HTTPS://WWW.Example.COM/", HOME),
        ("https://www.example.com:443/", HOME),
        ("http://www.example.com:80/", "http://www.example.com/"),
        ("https://www.example.com:80/", "https://www.example.com:80/"),
        ("https://www.example.com:8443/a", "https://www.example.com:8443/a"),
        ("https://www.example.com./a", "https://www.example.com/a"),
        ("  https://www.example.com/a\n", "https://www.example.com/a"),
        ("https://müller.example/", "https://xn--mller-kva.example/"),
        ("https://例え.テスト/", "https://xn--r8jz45g.xn--zckzah/"),
        ("https://faß.example/", "https://xn--fa-hia.example/"),
        ("https://www。example。com/", HOME),
        # what has to be escaped, once
        ("http://www.example.com/ümlat.php&q=name", "http://www.example.com/%C3%BCmlat.php&q=name"),
        ("https://www.example.com/%c3%bcmlat", "https://www.example.com/%c3%bcmlat"),
        ("https://www.example.com/%E9t%E9", "https://www.example.com/%E9t%E9"),
        ("https://www.example.com/100%", "https://www.example.com/100%25"),
        ("https://www.example.com/100%zz", "https://www.example.com/100%25zz"),
        ("https://www.example.com/a[1]|{2}", "https://www.example.com/a%5B1%5D%7C%7B2%7D"),
        ('https://www.example.com/"a"<b>', "https://www.example.com/%22a%22%3Cb%3E"),
        ("https://www.example.com/a;v=1,2@x:'y'(z)", "https://www.example.com/a;v=1,2@x:'y'(z)"),
        ("https://www.example.com/🌊", "https://www.example.com/%F0%9F%8C%8A"),
        # query and fragment
        ("https://www.example.com/?q=ü&r=a/b?c", "https://www.example.com/?q=%C3%BC&r=a/b?c"),
        ("https://www.example.com?id=1", "https://www.example.com/?id=1"),
        ("https://www.example.com/?", HOME),
        ("https://www.example.com/?a=1&&b=2&", "https://www.example.com/?a=1&b=2"),
        ("https://www.example.com/#xtor=RSS-1", HOME),
        ("https://www.example.com/?a=1#b?c", "https://www.example.com/?a=1"),
        # tracking
        ("https://www.example.com/?id=1&utm_source=rss&x=2", "https://www.example.com/?id=1&x=2"),
        ("https://www.example.com/?xtor=RSS-1&partner=rss&emc=rss&wt_mc=x", HOME),
        ("https://www.example.com/?fbclid=1&gclid=2&at_medium=RSS&at_campaign=KARANGA", HOME),
        ("https://www.example.com/?utmost=1&partners=2", "https://www.example.com/?utmost=1&partners=2"),
        # sessions
        ("https://www.example.com/a;jsessionid=0A1B.node2?x=1", "https://www.example.com/a?x=1"),
        ("https://www.example.com/a;JSESSIONID=0A1B/b;v=1", "https://www.example.com/a/b;v=1"),
        ("https://www.example.com/a?PHPSESSID=0a1b&x=1&jsessionid=2", "https://www.example.com/a?x=1"),
    ],
)
def test_a_page_has_one_spelling(url: str, spelling: str) -> None:
    assert canonical(url) == spelling
    assert canonical(spelling) == spelling


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("", "is not an absolute http or https URL"),
        ("/2026/flood", "is not an absolute http or https URL"),
        ("ftp://www.example.com/flood", "is not an absolute http or https URL"),
        ("javascript:alert(1)", "is not an absolute http or https URL"),
        ("https:///flood", "has no host"),
        ("https://:443/", "has no host"),
        ("https://desk@www.example.com/", "has a user name or password in it"),
        ("https://www.example.com:port/", "is not a URL"),
        ("https://[::1/", "is not a URL"),
        ("https://www.example.com\\evil/", "has no valid host name"),
        ("https://-example.com/", "has no valid host name"),
        ("https://[::1]/", "has no valid host name"),
        ("https://www..example.com/", "has no valid host name"),
        ("https://www.example.com../", "has no valid host name"),
        ("https://\u2100.example/", "is not a URL"),
        ("https://a\u200db.example/", "has no valid host name"),
        ("https://www.example.com/a\nb", "has a line break or another control character in it"),
        ("https://www.example.com/\x00", "has a line break or another control character in it"),
        ("https://www.example.com/\ud800", "has half a character in it"),
        ("https://www.example.com/?q=\udc00", "has half a character in it"),
    ],
)
def test_an_invalid_url_is_refused_with_the_reason(url: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=re.escape(wrong)):
        canonical(url)


@pytest.mark.parametrize("ending", ["x", "ü", "%C3%BC"])
def test_the_length_limit_applies_to_the_normalised_url(ending: str) -> None:
    final = len(canonical(HOME + ending)) - len(HOME)
    fits = HOME + "a" * (LOC_CHARACTERS_MAX - len(HOME) - final) + ending

    assert len(canonical(fits)) == 2_047
    assert canonical(fits + "?utm_source=" + "x" * 3_000 + "#" + "y" * 3_000) == canonical(fits)
    for url, scheme in ((fits + "a", None), (fits.replace("https:", "http:") + "a", "https")):
        with pytest.raises(ValueError, match="is 2048 characters long; a sitemap takes at most 2047"):
            canonical(url, scheme)


def test_a_sites_scheme_replaces_the_one_given() -> None:
    assert canonical("http://www.example.com/a?b=1", "https") == "https://www.example.com/a?b=1"
    assert canonical("https://www.example.com:443/a", "http") == "http://www.example.com/a"


def test_the_host_of_a_page_has_its_port() -> None:
    assert host_of("https://www.example.com/a") == "www.example.com"
    assert host_of("https://www.example.com:8443/a") == "www.example.com:8443"


def test_a_pages_key_is_128_bits_and_depends_on_every_character() -> None:
    assert re.fullmatch("[0-9a-f]{32}", key_of(HOME))
    assert key_of(HOME) != key_of(HOME + "a")


PIECES = st.text(alphabet=st.characters(), max_size=20) | st.text("abü%2fF?&=#/:@[]\\ utm_\ud800", max_size=20)


@given(st.sampled_from(["https://www.example.com", "https://", "http:", "", "https://müller.example"]), PIECES, PIECES)
def test_every_normalised_url_is_valid_and_stays_unchanged(start: str, path: str, query: str) -> None:
    try:
        spelling = canonical(f"{start}/{path}?{query}")
    except ValueError as refused:
        assert str(refused)  # noqa: PT017 - any other error ends the test
        return
    assert URI.fullmatch(spelling), spelling
    assert len(spelling) <= LOC_CHARACTERS_MAX
    assert canonical(spelling) == spelling
    assert urlsplit(spelling).fragment == ""
