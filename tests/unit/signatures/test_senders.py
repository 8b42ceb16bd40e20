"""Requests that are signed as the vendors document are accepted, and no others."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme, names
from stoppress.signatures.verify import BadSecret, BadSignature, verify
from stoppress_cli.scenario import signing
from tests.support.signature_senders import BODY, MORNING, PATH, QUERY, SENDERS, Sender, posted, sender_of


def each(predicate: Callable[[Sender], bool]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("sender", [*filter(predicate, SENDERS)], ids=lambda sender: sender.scheme)


def refuse(sender: Sender, request: Request, *secrets: str, later: timedelta = timedelta()) -> str:
    with pytest.raises(BadSignature) as refusal:
        verify(sender.scheme, request, secrets or [sender.secret], MORNING + later)
    return str(refusal.value)


def test_every_scheme_has_a_sender_here() -> None:
    assert {sender.scheme for sender in SENDERS} == set(names()) - {"none"}


@each(lambda sender: True)
def test_both_secrets_are_valid_during_a_rotation(sender: Sender) -> None:
    for secret in (sender.secret, sender.other):
        verify(sender.scheme, sender.request(secret), [sender.other, sender.secret], MORNING)
    refuse(sender, sender.request(), sender.other)


@each(lambda sender: sender.of_body)
def test_a_changed_byte_of_the_body_is_detected(sender: Sender) -> None:
    refuse(sender, posted(sender.request(), body=BODY + b" "))
    refuse(sender, posted(sender.request(), body=b""))


@each(lambda sender: sender.timed)
def test_a_timestamp_more_than_five_minutes_off_is_refused(sender: Sender) -> None:
    for seconds in (-300.0, 300.0):
        verify(sender.scheme, sender.request(), [sender.secret], MORNING + timedelta(seconds=seconds))
    for seconds in (-301.0, 300.5, 301.0, 86_400.0):
        reason = refuse(sender, sender.request(), later=timedelta(seconds=seconds))
        assert f" is {abs(seconds):.0f} s away from now, at most 300 are accepted" in reason
    verify(sender.scheme, sender.request(), [sender.secret], MORNING + timedelta(days=1), tolerance=timedelta(days=1))


# Ghost did not sign the time before July 2024.
@each(lambda sender: sender.timed and sender.scheme != "ghost-legacy")
def test_a_new_timestamp_on_an_old_signature_is_detected(sender: Sender) -> None:
    old, at = sender.request(), MORNING + timedelta(hours=1)
    before, after = (str(round(moment.timestamp())) for moment in (MORNING, at))
    headers = {name: value.replace(before, after) for name, value in old.headers.items()}

    assert headers != old.headers
    assert "does not match" in refuse(sender, posted(old, headers=headers), later=timedelta(hours=1))
    verify(sender.scheme, sender.request(at=at), [sender.secret], at)


@each(lambda sender: len(sender.request().headers) > 1)
def test_without_one_of_its_headers_a_delivery_is_refused(sender: Sender) -> None:
    request = sender.request()
    for name in request.headers.keys() - {"host"}:
        refuse(sender, posted(request, headers={**request.headers, name: ""}))
        refuse(sender, posted(request, headers={key: value for key, value in request.headers.items() if key != name}))


def test_an_empty_secret_accepts_nothing() -> None:
    sender = sender_of("github")
    for secrets in ([], [""], [" ", "\n"]):
        with pytest.raises(BadSecret):
            verify("github", sender.request(""), secrets, MORNING)
    verify("github", sender.request(), ["", sender.secret], MORNING)
    refuse(sender, sender.request(""), "", sender.secret)


@each(lambda sender: True)
def test_a_request_signed_for_another_scheme_is_refused(sender: Sender) -> None:
    same = {"token": "query-token", "query-token": "token"}
    for other in SENDERS:
        if other.scheme not in (sender.scheme, same.get(sender.scheme)):
            with pytest.raises((BadSignature, BadSecret)):
                verify(other.scheme, sender.request(), [sender.secret], MORNING)


@each(lambda sender: True)
def test_the_scenario_player_signs_as_the_sender_does(sender: Sender) -> None:
    unsigned = Request(
        {"content-type": "application/json"}, BODY, path=PATH, query="a=b" if "token" in sender.scheme else QUERY
    )

    signed_request = signing.signed(unsigned, sender.scheme, sender.secret, "msg_1", MORNING)

    verify(sender.scheme, signed_request, [sender.secret], MORNING)


@pytest.mark.parametrize("scheme", ["md5", "", "STANDARD"])
def test_an_unknown_scheme_accepts_nothing(scheme: str) -> None:
    with pytest.raises(BadScheme, match="is not supported: use one of basic, bearer, "):
        verify(scheme, SENDERS[0].request(), [SENDERS[0].secret], MORNING)
    with pytest.raises(BadSignature, match="put its events on the bus"):
        verify("none", SENDERS[0].request(), [SENDERS[0].secret], MORNING)


# ── any request ───────────────────────────────────────────────────────────────────────────────────────────────────────

SECRETS = {"standard": "whsec_bm90IGtub3duIHRvIGFueWJvZHk=", "basic": "known:to nobody"}
NAMES = sorted({name for sender in SENDERS for name in sender.request().headers})
VALUES = st.text(alphabet=st.characters(), max_size=40) | st.sampled_from(
    [value for sender in SENDERS for value in sender.request().headers.values()]
    + ["t=1", "v1=", "sha256=", "v1,", "sign=,env=,t=1", "Bearer", "Basic ", f"t={round(MORNING.timestamp() * 1_000)}"]
)


@each(lambda sender: True)
def test_a_lone_surrogate_in_a_request_is_refused(sender: Sender) -> None:
    request = sender.request()
    headers = {name: f"{value}\ud800" for name, value in request.headers.items()}

    for query in ("token=\ud800", "access_token=\ud800"):
        refuse(sender, posted(request, headers=headers, query=query, body=b'{"secret": "\\ud800"}'))


@given(
    st.sampled_from(SENDERS),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
    st.binary(max_size=40),
    st.text(alphabet=st.characters(), max_size=40),
    st.text(alphabet=st.characters(), max_size=40),
)
def test_any_unsigned_request_is_refused_without_an_exception(
    sender: Sender, headers: dict[str, str], body: bytes, path: str, query: str
) -> None:
    with pytest.raises(BadSignature):
        verify(
            sender.scheme,
            Request(headers, body, path=path, query=query),
            [SECRETS.get(sender.scheme, "known to nobody")],
            MORNING,
        )
