"""The common verifier: its parameters, the parsing of headers, and its constant time."""

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


def is_accepted(scheme: str | dict[str, Any], request: Request, *secrets: str) -> bool:
    try:
        verify(scheme, request, secrets or [SECRET], MORNING)
    except BadSignature:
        return False
    return True


def newsroom(body: bytes = BODY) -> Request:
    signature = mac(SECRET, "nonce-7/", body, digest="sha512").hex()
    return Request({"x-newsroom": f"v2={signature}", "x-nonce": "nonce-7"}, body)


def test_a_custom_sender_is_described_by_a_table() -> None:
    assert is_accepted(OURS, newsroom())
    assert is_accepted(OURS | {"signed": "{X-Nonce}/{body}"}, newsroom())
    assert not is_accepted(OURS, newsroom(), "another secret")
    assert not is_accepted(OURS, posted(newsroom(), body=b"{}"))
    assert not is_accepted(OURS, posted(newsroom(), headers={**newsroom().headers, "x-nonce": "nonce-8"}))
    assert not is_accepted(OURS, posted(newsroom(), headers={"x-newsroom": newsroom().headers["x-newsroom"]}))
    timed = {"header": "X-Newsroom", "signed": "{T}.{Body}", "time_header": "X-Time", "key": "hex"}
    at = str(int(MORNING.timestamp()))
    signature = hmac.digest(b"\x00\xffkey", f"{at}.".encode() + BODY, "sha256").hex()
    assert is_accepted(timed, Request({"x-newsroom": signature, "x-time": at}, BODY), b"\x00\xffkey".hex())
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
def test_an_invalid_signature_table_accepts_nothing_and_is_reported(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(BadScheme, match=words):
        verify(OURS | changed, newsroom(), [SECRET], MORNING)


# ── the header ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scheme", ["ghost", "sanity", "stripe-like"])
def test_the_items_of_a_header_may_have_any_order_and_spaces(scheme: str) -> None:
    sender = sender_of(scheme)
    request = sender.request()
    ((name, value),) = request.headers.items() - {("host", "api.example.com")}
    items = [item.strip() for item in value.split(",")]

    written = (f" {','.join(items)}\t", ", ".join(reversed(items)), " , ".join(items), ",".join([*items, "v0=abc"]))
    for value in written:
        assert is_accepted(scheme, posted(request, headers={name: value}), sender.secret), value
    for item in items:
        assert not is_accepted(scheme, posted(request, headers={name: item}), sender.secret), item


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

    assert is_accepted(scheme, posted(request, headers=headers), sender.secret)
    assert is_accepted(scheme, posted(request, headers=headers), sender.other)
    assert not is_accepted(scheme, posted(request, headers=headers), SENDERS[0].secret[:-4])


@pytest.mark.parametrize(
    "sender", [sender for sender in SENDERS if sender.scheme in PRESETS], ids=lambda sender: sender.scheme
)
def test_a_signature_is_accepted_in_its_canonical_encoding_only(sender: Sender) -> None:
    """The last character of base64 without padding has unused bits, so that a digest has several encodings."""
    preset, request = PRESETS[sender.scheme], sender.request()
    value = request.headers[preset.header]
    signature = next(item for item in value.replace(",", " ,").split() if len(item) > 30).lstrip(",")
    bare = signature.removeprefix(preset.prefix)
    last = bare.rstrip("=")[-1]
    spelt = bare.upper() if preset.encoding == "hex" else bare.replace(last, chr(ord(last) + 1))
    for other in (spelt, bare + "=", bare[:-1], "", bare + bare):
        if other != bare:
            headers = {**request.headers, preset.header: value.replace(bare, other)}
            assert not is_accepted(sender.scheme, posted(request, headers=headers), sender.secret), other


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
def test_an_invalid_timestamp_is_refused_with_the_reason(scheme: str, header: str, value: str, reason: str) -> None:
    sender = sender_of(scheme)

    with pytest.raises(BadSignature, match=reason):
        verify(scheme, Request({**sender.request().headers, header: value}, BODY), [sender.secret], MORNING)


# ── constant time and imports ──────────────────────────────────────────────────────────────────────────────────


def test_all_secrets_are_compared_in_constant_time() -> None:
    names = {"given", "expected", "signature", "secret", "secrets", "digest"}
    comparing = []
    for path in (ROOT / "shared/stoppress/signatures").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ListComp | ast.GeneratorExp) and "compare_digest" in ast.unparse(node):
                comparing.append((path.name, type(node)))
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                assert not {ast.unparse(side) for side in (node.left, *node.comparators)} & names, ast.unparse(node)
    # A list, because any() would stop a generator at the first match.
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
    assert is_accepted(read_file(path).signature, newsroom())

    for wrong in ('signature = "unreceived-of"', 'signature = {header = "X-Acme", signed = "{t}"}'):
        path.write_text(file.format(signature=wrong, table="settings"))
        with pytest.raises(BadMapping, match=r"acme.toml:6: signature: (signed: |)the (signature|template) "):
            read_file(path)
