"""The one verifier: what its data may say, how it reads a header, and that it takes as long whatever it is given."""

import ast
import hmac
from pathlib import Path
from typing import Any

import pytest

from stoppress.cms.mapping import BadMapping, read_file
from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import PRESETS, BadScheme
from stoppress.signatures.verify import BadSecret, BadSignature, verify
from tests.support.signature_senders import BODY, MORNING, SENDERS, Sender, mac, posted, sender_of

ROOT = Path(__file__).parents[3]
SECRET = "known to the newsroom"
OURS = {"header": "X-Newsroom", "prefix": "v2=", "signed": "{x-nonce}/{body}", "digest": "sha512"}


def accepted(scheme: str | dict[str, Any], request: Request, *secrets: str) -> bool:
    try:
        verify(scheme, request, secrets or [SECRET], MORNING)
    except BadSignature:
        return False
    return True


def newsroom(body: bytes = BODY) -> Request:
    signature = mac(SECRET, "nonce-7/", body, digest="sha512").hex()
    return Request({"x-newsroom": f"v2={signature}", "x-nonce": "nonce-7"}, body)


def test_a_sender_of_a_newsrooms_own_is_described_by_a_table() -> None:
    assert accepted(OURS, newsroom())
    assert accepted(OURS | {"signed": "{X-Nonce}/{body}"}, newsroom())
    assert not accepted(OURS, newsroom(), "another secret")
    assert not accepted(OURS, posted(newsroom(), body=b"{}"))
    assert not accepted(OURS, posted(newsroom(), headers={**newsroom().headers, "x-nonce": "nonce-8"}))
    assert not accepted(OURS, posted(newsroom(), headers={"x-newsroom": newsroom().headers["x-newsroom"]}))
    timed = {"header": "X-Newsroom", "signed": "{T}.{Body}", "time_header": "X-Time", "key": "hex"}
    at = str(int(MORNING.timestamp()))
    signature = hmac.digest(b"\x00\xffkey", f"{at}.".encode() + BODY, "sha256").hex()
    assert accepted(timed, Request({"x-newsroom": signature, "x-time": at}, BODY), b"\x00\xffkey".hex())
    with pytest.raises(BadSecret, match="the secret is not hex"):
        verify(timed, Request({"x-newsroom": signature, "x-time": at}, BODY), ["no hex"], MORNING)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"header": ""}, "header: is empty: give it"),
        ({"headers": "x"}, "headers: is not known here"),
        ({"digest": "md5"}, "digest: give one of these: 'sha1'"),
        ({"encoding": "hexadecimal"}, "encoding: give one of these: 'hex'"),
        ({"unit": "minutes"}, "unit: give one of these: 's'"),
        ({"key": "base32"}, "key: give one of these: 'text'"),
        ({"separator": ";"}, "separator: give one of these"),
        ({"signed": "{x-nonce}"}, r"the template has no \{body\}"),
        ({"signed": "{t}{body}"}, r"\{t\} needs a time"),
        ({"prefix": 7}, "prefix: give it as text"),
        ({"header": None}, "header: give it as text"),
    ],
)
def test_a_table_that_cannot_be_used_lets_nobody_in_and_reports_why(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(BadScheme, match=words):
        verify(OURS | changed, newsroom(), [SECRET], MORNING)


# ── the header ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scheme", ["ghost", "sanity", "stripe-like"])
def test_the_items_of_a_header_may_stand_in_any_order_with_or_without_spaces(scheme: str) -> None:
    sender = sender_of(scheme)
    request = sender.request()
    ((name, value),) = request.headers.items() - {("host", "api.example.com")}
    items = [item.strip() for item in value.split(",")]

    written = (f" {','.join(items)}\t", ", ".join(reversed(items)), " , ".join(items), ",".join([*items, "v0=abc"]))
    for value in written:
        assert accepted(scheme, posted(request, headers={name: value}), sender.secret), value
    for item in items:
        assert not accepted(scheme, posted(request, headers={name: item}), sender.secret), item


@pytest.mark.parametrize("scheme", ["ghost", "sanity", "stripe-like", "standard"])
def test_one_signature_of_several_is_enough(scheme: str) -> None:
    sender = sender_of(scheme)
    request, other = sender.request(), sender.request(sender.other)
    preset = PRESETS[scheme]
    both = f"{other.headers[preset.header]}{preset.separator}{request.headers[preset.header]}"
    if preset.time:  # a header gives its time once
        time = next(item for item in both.replace(",", " ").split() if item.startswith(preset.time))
        both = preset.separator.join([item for item in both.replace(",", " ").split() if item != time] + [time])
    headers = {**request.headers, preset.header: both}

    assert accepted(scheme, posted(request, headers=headers), sender.secret)
    assert accepted(scheme, posted(request, headers=headers), sender.other)
    assert not accepted(scheme, posted(request, headers=headers), SENDERS[0].secret[:-4])


@pytest.mark.parametrize(
    "sender", [sender for sender in SENDERS if sender.scheme in PRESETS], ids=lambda sender: sender.scheme
)
def test_a_signature_counts_as_it_is_written_and_in_no_other_spelling(sender: Sender) -> None:
    """The last character of base64 without padding has bits that belong to nothing: the same digest can be written otherwise."""
    preset, request = PRESETS[sender.scheme], sender.request()
    value = request.headers[preset.header]
    signature = next(item for item in value.replace(",", " ,").split() if len(item) > 30).lstrip(",")
    bare = signature.removeprefix(preset.prefix)
    last = bare.rstrip("=")[-1]
    spelt = bare.upper() if preset.encoding == "hex" else bare.replace(last, chr(ord(last) + 1))
    for other in (spelt, bare + "=", bare[:-1], "", bare + bare):
        if other != bare:
            headers = {**request.headers, preset.header: value.replace(bare, other)}
            assert not accepted(sender.scheme, posted(request, headers=headers), sender.secret), other


@pytest.mark.parametrize(
    ("scheme", "header", "value", "reason"),
    [
        *[
            (scheme, header, time, f"{header} is not a number of {unit} since 1970")
            for scheme, header, unit in (
                ("webflow", "x-webflow-timestamp", "milliseconds"),
                ("standard", "webhook-timestamp", "seconds"),
            )
            for time in ("-1", "1e9", "٣", "²", "1" * 5_000, "now")
        ],
        ("webflow", "x-webflow-timestamp", "1795161600", "is in seconds since 1970: give and sign it in milliseconds"),
        (
            "standard",
            "webhook-timestamp",
            "1795161600651",
            "is in milliseconds since 1970: give and sign it in seconds",
        ),
        ("ghost", "x-ghost-signature", "sha256=ab, t=1795161600000,t=1", "has to give one time, as t=<number>"),
    ],
)
def test_a_time_that_cannot_count_is_refused_with_what_is_wrong(
    scheme: str, header: str, value: str, reason: str
) -> None:
    sender = sender_of(scheme)

    with pytest.raises(BadSignature, match=reason):
        verify(scheme, Request({**sender.request().headers, header: value}, BODY), [sender.secret], MORNING)


# ── how long it takes, and what it loads ──────────────────────────────────────────────────────────────────────────────────


def test_secrets_are_compared_in_constant_time_and_without_stopping() -> None:
    names = {"given", "expected", "signature", "secret", "secrets", "digest"}
    comparing = []
    for path in (ROOT / "shared/stoppress/signatures").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ListComp | ast.GeneratorExp) and "compare_digest" in ast.unparse(node):
                comparing.append((path.name, type(node)))
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                assert not {ast.unparse(side) for side in (node.left, *node.comparators)} & names, ast.unparse(node)
    # A list, and not a generator that any() would leave at the first that fits.
    assert comparing == [("verify.py", ast.ListComp)]


def test_a_mapping_file_may_describe_how_its_cms_signs(tmp_path: Path) -> None:
    file = """
        name = "acme"
        title = "Acme"
        reads = "its events"
        verified = "documentation"
        {signature}
        [action]
        from = "body.event"
        map = {{live = "publish"}}
        [fields]
        id = "body.id"
        [{table}]
    """
    path = tmp_path / "acme.toml"
    table = "signature]\n" + "\n".join(f'{name} = "{value}"' for name, value in OURS.items()) + "\n#"

    path.write_text(file.format(signature="", table=table))
    assert accepted(read_file(path).signature, newsroom())

    for wrong in ('signature = "unreceived-of"', 'signature = {header = "X-Acme", signed = "{t}"}'):
        path.write_text(file.format(signature=wrong, table="settings"))
        with pytest.raises(BadMapping, match=r"acme.toml:6: signature: (signed: |)the (signature|template) "):
            read_file(path)
