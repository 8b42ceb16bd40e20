"""How senders sign, as data: each is documented by the vendor, or read in its code."""

from stoppress.signatures.parametric import Hmac

_SAME = "give the sender the secret of this source, the very same characters"

PRESETS = {
    # Standard Webhooks 1.0.
    "standard": Hmac(
        header="webhook-signature",
        signed="{webhook-id}.{webhook-timestamp}.{body}",
        encoding="base64",
        prefix="v1,",
        separator=" ",
        time_header="webhook-timestamp",
        key="base64",
        key_prefix="whsec_",
        how="sign '<webhook-id>.<webhook-timestamp>.<body>' with HMAC-SHA256, the key being the secret base64-decoded"
        " without its whsec_, over the very bytes of the body (Standard Webhooks 1.0)",
    ),
    # GitHub's, which many others took over: Drupal's webhooks module for one.
    "github": Hmac(header="x-hub-signature-256", prefix="sha256=", how=_SAME),
    # Ghost since July 2024; before, the time was beside the signature and not in it.
    "ghost": Hmac(
        header="x-ghost-signature",
        signed="{body}{t}",
        prefix="sha256=",
        separator=",",
        time="t=",
        unit="ms",
        how=f"{_SAME}; a Ghost of before July 2024 needs the signature ghost-legacy in this source's settings",
    ),
    "ghost-legacy": Hmac(header="x-ghost-signature", prefix="sha256=", separator=",", time="t=", unit="ms", how=_SAME),
    "superdesk": Hmac(header="x-superdesk-signature", digest="sha1", prefix="sha1=", how=_SAME),
    # The plugin WP Webhooks.
    "wp-webhooks": Hmac(header="x-wp-webhook-signature", encoding="base64", how=_SAME),
    "sanity": Hmac(
        header="sanity-webhook-signature",
        signed="{t}.{body}",
        encoding="base64url",
        prefix="v1=",
        separator=",",
        time="t=",
        unit="ms",
        how=_SAME,
    ),
    # Its header's name is also that of Standard Webhooks: one more reason not to go by headers.
    "storyblok": Hmac(header="webhook-signature", digest="sha1", how=_SAME),
    "webflow": Hmac(
        header="x-webflow-signature",
        signed="{t}:{body}",
        time_header="x-webflow-timestamp",
        unit="ms",
        how=_SAME,
    ),
    "kontent": Hmac(header="x-kontent-ai-signature", encoding="base64", how=_SAME),
    # As Stripe signs, under a header of no vendor: for senders of a newsroom's own that are written so.
    "stripe-like": Hmac(
        header="x-webhook-signature", signed="{t}.{body}", prefix="v1=", separator=",", time="t=", how=_SAME
    ),
}
