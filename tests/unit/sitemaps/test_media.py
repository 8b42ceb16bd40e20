"""Images, videos and language versions: reading from any JSON, limits, and tags."""

from importlib.resources import files as resources
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from lxml import etree

from stoppress.model import alternates as alternates_module, file_names, media
from stoppress.model.alternates import ALTERNATES_MAX, hreflang, read_alternates
from stoppress.model.entries import Alternate, Video
from stoppress.model.media import read_images, read_videos
from stoppress.primitives.text import COUNTRIES
from stoppress.primitives.urls import linked
from stoppress.sitemaps.tags import alternate_tags, fit, image_tags, video_tags
from tests.docs.test_tags import rendered
from tests.support.adjacent_paths import needs_shared
from tests.support.article_events import page
from tests.support.saved_files import schema

PAGE = page("2026/flood")
CDN = "https://cdn.example.net"
REQUIRED = {"thumbnail_loc": f"{CDN}/t.jpg", "title": "Flood", "description": "It rose.", "content_loc": f"{CDN}/v.mp4"}
VIDEO = tuple(REQUIRED.items())
WHOLE = (
    ("thumbnail_loc", f"{CDN}/t.jpg?a=1&b='2'"),
    ("title", 'Fish & "chips" < 5 🌊'),
    ("description", "It rose. مياه 洪水"),
    ("content_loc", f"{CDN}/v.mp4"),
    ("player_loc", f"{CDN}/player"),
    ("duration", "150"),
    ("expiration_date", "2026-12-31"),
    ("rating", "4.5"),
    ("view_count", "0"),
    ("publication_date", "2026-11-20T08:00:00Z"),
    ("tag", "flood"),
    ("tag", "a & b"),
    ("family_friendly", "yes"),
    ("restriction", "allow GB IE"),
    ("requires_subscription", "no"),
    ("uploader", "Desk & Co"),
    ("uploader_info", page("desk?a=1&b=2")),
    ("platform", "deny tv"),
    ("live", "no"),
)


def video(**raw: Any) -> tuple[Video | None, list[str]]:
    """Return the video of REQUIRED with these values, and the reasons."""
    videos, reasons = read_videos([REQUIRED | raw], PAGE)
    return (videos[0] if videos else None), reasons


def root(tags: str) -> Any:
    declared = f'xmlns:image="{file_names.IMAGE}" xmlns:video="{file_names.VIDEO}" xmlns:xhtml="{file_names.XHTML}"'
    sitemap = "http://www.sitemaps.org/schemas/sitemap/0.9"
    return etree.fromstring(f'<urlset xmlns="{sitemap}" {declared}><url><loc>{PAGE}</loc>{tags}</url></urlset>')


# ── URLs of a page's media ──


@pytest.mark.parametrize(
    ("raw", "spelling"),
    [
        ("/a.jpg", page("a.jpg")),
        ("a.jpg?partner=x", page("2026/a.jpg?partner=x")),
        ("//cdn.example.net/a.jpg", f"{CDN}/a.jpg"),
        (f" {CDN}/ü.jpg#top ", f"{CDN}/%C3%BC.jpg"),
        (f"{CDN}/a.jpg?utm_source=x&&Signature=a%2Bb=&partner=",
         f"{CDN}/a.jpg?utm_source=x&&Signature=a%2Bb=&partner="),
        ("http://cdn.example.net/a.jpg", "http://cdn.example.net/a.jpg"),
        ("http://www.example.com/a.jpg", page("a.jpg")),
    ],
)  # fmt: skip
def test_the_url_of_a_file_is_absolute_and_keeps_all_its_parameters(raw: str, spelling: str) -> None:
    assert linked(raw, PAGE, keep_query=True) == spelling
    assert linked(spelling, PAGE, keep_query=True) == spelling


def test_the_url_of_a_page_has_no_tracking_parameters_and_the_scheme_of_its_host() -> None:
    assert linked("/fr?utm_source=x&id=1", PAGE) == page("fr?id=1")
    assert linked("https://www.example.com/fr", "http://www.example.com/") == "http://www.example.com/fr"


# ── images ──


@pytest.mark.parametrize(
    ("raw", "urls", "reasons"),
    [
        (["/1.jpg", {"url": f"{CDN}/2.jpg"}, {"loc": "/3.jpg"}, {"src": "/4.jpg", "caption": 7}, "/1.jpg#again"],
         [page("1.jpg"), f"{CDN}/2.jpg", page("3.jpg"), page("4.jpg")], []),
        # A repeated image has its newest date.
        (
            ["/1.jpg", {"url": "/2.jpg", "published_at": "2026-11-21"}, {"url": "/1.jpg", "published_at": "2026-11-22"}, "/1.jpg"],
            [page("2.jpg"), page("1.jpg")], [],
        ),
        (["/1.jpg", {"url": "/2.jpg", "published_at": "soon"}], [page("1.jpg"), page("2.jpg")],
         ["images[1].published_at: 'soon' is not an ISO 8601 instant"]),
        ([f"/{number}.jpg" for number in range(1_002)], [page(f"{number}.jpg") for number in range(2, 1_002)],
         ["images: a page takes 1,000; the oldest 2 were left out"]),
        *(
            (["/1.jpg", raw, "/3.jpg"], [page("1.jpg"), page("3.jpg")], [f"images[1]: {reason}"])
            for raw, reason in [
                ("ftp://cdn.example.net/a.jpg", "'ftp://cdn.example.net/a.jpg' is not an absolute http or https URL"),
                ("", "is empty: give a URL"),
                ("#top", "the URL is that of the page itself: give that of the file"),
                (7, "7 is no URL: give one, as a text"),
                ({"width": 7}, "None is no URL: give one, as a text"),
            ]
        ),
        *((raw, [], []) for raw in (None, "", list[str](), dict[str, str]())),
    ],
)  # fmt: skip
def test_images_are_read_and_each_invalid_one_is_reported(raw: object, urls: list[str], reasons: list[str]) -> None:
    read, messages = read_images(raw, PAGE)

    assert list(read) == urls
    assert len(messages) == len(reasons)
    assert all(reason.startswith(start) for reason, start in zip(messages, reasons, strict=True))


def test_a_single_image_video_or_alternate_needs_no_list() -> None:
    assert read_images("/1.jpg", PAGE) == read_images({"url": "/1.jpg"}, PAGE) == ((page("1.jpg"),), [])
    assert read_videos(REQUIRED, PAGE) == ((VIDEO,), [])
    assert read_alternates({"hreflang": "fr", "href": "/fr"}, PAGE) == ((Alternate("fr", page("fr")),), [])


# ── videos ──


def test_a_complete_video_is_read_with_the_names_of_the_tags() -> None:
    raw = {
        "thumbnail_loc": f"{CDN}/t.jpg?a=1&b='2'",
        "title": 'Fish & "chips" < 5 🌊',
        "description": "It rose.\nمياه 洪水",
        "content_loc": f"{CDN}/v.mp4",
        "player_loc": f"{CDN}/player",
        "duration": 150,
        "expiration_date": "2026-12-31",
        "rating": 4.5,
        "view_count": 0,
        "publication_date": "2026-11-20T09:00:00+01:00",
        "family_friendly": "yes",
        "restriction": {"allow": ["gb", "IE", "GB"]},
        "platform": {"deny": "tv"},
        "requires_subscription": False,
        "uploader": {"name": "Desk & Co", "info": "/desk?a=1&b=2"},
        "live": "No",
        "tags": ["flood", "a & b", "flood", " "],
        "category": "news",
        "allow_embed": "yes",
    }

    assert read_videos([raw], PAGE) == ((WHOLE,), [])


@pytest.mark.parametrize(
    ("without", "missing"),
    [
        ("thumbnail_loc", "thumbnail_loc"),
        ("title", "title"),
        ("description", "description"),
        ("content_loc", "content_loc or player_loc"),
    ],
)
@pytest.mark.parametrize("value", [None, ""])
def test_a_video_without_a_required_value_is_left_out(without: str, missing: str, value: object) -> None:
    reason = f"videos[0]: is left out without {missing}: give what is missing"
    assert video(**{without: value}) == (None, [reason])


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("thumbnail_loc", "javascript:alert(1)", "is not an absolute http or https URL"),
        ("title", " \u200b", "is empty"),
        ("title", ["Flood"], "a list is no text: give it in quotation marks"),
        ("description", 7, "7 is no text"),
        ("content_loc", PAGE, "the URL is that of the page itself"),
        ("content_loc", "?utm_source=player#play", "the URL is that of the page itself"),
        ("content_loc", PAGE.replace("https", "http"), "the URL is that of the page itself"),
    ],
)
def test_a_video_with_an_invalid_required_value_is_left_out(name: str, value: object, reason: str) -> None:
    read, reasons = video(**{name: value})

    assert read is None
    assert reasons[0].startswith(f"videos[0].{name}: ")
    assert reason in reasons[0]
    assert reasons[1].startswith("videos[0]: is left out without ")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("duration", 0, "0 is no duration: give 1 to 28800 seconds, or a text such as PT2M30S"),
        ("duration", 28_801, "28801 is no duration"),
        ("duration", "PT", "'PT' is no duration"),
        ("duration", "PT9H", "'PT9H' is no duration"),
        ("duration", "02:30", "'02:30' is no duration"),
        ("duration", float("nan"), "nan is no duration"),
        ("duration", 10**400, "is no duration"),
        ("expiration_date", "2026-13-01", "'2026-13-01' is not in the calendar"),
        ("expiration_date", "2026-11-20T08:00:00", "has no zone"),
        ("publication_date", 1_763_625_600, "1763625600 is no date: give a text"),
        ("rating", 5.1, "5.1 is no rating: give a number from 0.0 to 5.0"),
        ("rating", "4,5", "'4,5' is no rating"),
        ("view_count", 1.5, "1.5 is no count"),
        ("view_count", 2**63, "is no count: give a whole number from 0 on"),
        ("family_friendly", "perhaps", "'perhaps' is neither yes nor no: give one of them"),
        ("requires_subscription", {}, "an object is neither"),
        ("restriction", "GB IE", 'give {"allow": ["GB", "IE"]}, or the same with "deny"'),
        ("restriction", {"relationship": "allow"}, 'give {"allow": ["GB", "IE"]}'),
        ("restriction", {"deny": ["XX", 7]}, "is left out, none of its codes is known"),
        ("platform", {"allow": ["radio"]}, "is left out, none of its codes is known"),
        ("uploader", 7, "7 is no text"),
        ("tags", 7, "7 is no list: give texts, in square brackets"),
    ],
)
def test_an_invalid_optional_value_is_left_out_and_the_video_stays(name: str, value: object, reason: str) -> None:
    read, reasons = video(**{name: value})

    assert read == VIDEO
    assert len(reasons) == 1
    assert reasons[0].startswith(f"videos[0].{name}: ")
    assert reason in reasons[0]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1, 1), (28_800, 28_800), (90.6, 91), ("150", 150), ("PT2M30S", 150), ("pt2m30.4s", 150), ("PT8H", 28_800),
        ("P0DT1H1M1S", 3_661),
    ],
)  # fmt: skip
def test_durations_are_seconds_or_iso_8601(value: object, seconds: int) -> None:
    assert dict(video(duration=value)[0] or ())["duration"] == str(seconds)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0.0"), (5, "5.0"), ("4.5", "4.5"), (4.456, "4.46"), (-0.0, "0.0"), (1e-9, "0.0")]
)
def test_ratings_have_the_form_of_the_schema(value: object, text: str) -> None:
    assert dict(video(rating=value)[0] or ())["rating"] == text


@pytest.mark.parametrize(
    ("value", "relation"),
    [
        ("allow GB IE", "allow GB IE"),
        ({"allow": "gb, ie"}, "allow GB IE"),
        ({"relationship": "Deny", "codes": ["uk"]}, "deny GB"),
        ({"deny": ["EL", "GR"]}, "deny GR"),
    ],
)
def test_countries_are_those_of_iso_3166(value: object, relation: str) -> None:
    assert dict(video(restriction=value)[0] or ())["restriction"] == relation


@pytest.mark.parametrize(
    ("name", "characters_max", "value", "kept"),
    [
        ("title", 100, "Flood " * 16 + "rose again", "Flood " * 15 + "Flood…"),
        ("title", 100, "洪" * 101, "洪" * 99 + "…"),
        ("description", 2_048, "x" * 2_049, "x" * 2_047 + "…"),
        ("uploader", 255, "x" * 256, "x" * 254 + "…"),
    ],
)
def test_a_long_text_is_cut_between_words(name: str, characters_max: int, value: str, kept: str) -> None:
    read, reasons = video(**{name: value})
    fits = value[:characters_max].strip()

    assert dict(read or ())[name] == kept
    assert reasons == [f"videos[0].{name}: was cut to {characters_max:,} characters: give a shorter one"]
    assert (dict(video(**{name: fits})[0] or ())[name], video(**{name: fits})[1]) == (fits, [])


@pytest.mark.parametrize(
    ("raw", "read", "reasons"),
    [
        ([{"contentUrl": "/other"} | REQUIRED], [VIDEO], []),
        ([{"thumbnailUrl": "/t.jpg", "title": "A", "description": "B", "embedUrl": "/p"}],
         [(("thumbnail_loc", page("t.jpg")), ("title", "A"), ("description", "B"), ("player_loc", page("p")))], []),
        ([REQUIRED | {"tags": "harbour, flood"}], [(*VIDEO, ("tag", "harbour"), ("tag", "flood"))], []),
        ([REQUIRED | {"content_loc": page("listed"), "player_loc": "/p"}], [(*VIDEO[:3], ("player_loc", page("p")))],
         ["videos[0].content_loc: "]),
        ([REQUIRED | {"player_loc": "/listed"}], [VIDEO], ["videos[0].player_loc: the URL is that of the page itself"]),
        ([REQUIRED | {"tags": [*map(str, range(33)), 7]}], [(*VIDEO, *(("tag", str(number)) for number in range(32)))], ["videos[0].tags"] * 2),
        ([REQUIRED, REQUIRED, REQUIRED | {"title": "Other"}], [VIDEO],
         ["videos[2]: is left out: a video before it has the same file or player"]),
        ([REQUIRED | {"content_loc": f"/{number}.mp4"} for number in range(101)],
         [(*VIDEO[:3], ("content_loc", page(f"{number}.mp4"))) for number in range(100)], ["videos: a page takes 100; the last 1 were left out"]),
        (["/v.mp4"], [], ["videos[0]: give an object"]),
        ([REQUIRED | {"platform": {"allow": ["web", "radio", "TV", 7]}}], [(*VIDEO, ("platform", "allow web tv"))],
         ["""videos[0].platform: 'radio', '7': left out, not known; give codes such as ["web", "mobile", "tv"]"""]),
        ([REQUIRED | {"uploader": {"name": "Desk", "info": f"{CDN}/desk"}}], [(*VIDEO, ("uploader", "Desk"))],
         ["videos[0].uploader_info: is on cdn.example.net: give a page on www.example.com, where the article is"]),
        ([REQUIRED | {"uploader": {"info": "/desk"}}], [VIDEO], ["videos[0].uploader_info: is left out without an uploader: give the uploader's name"]),
        (None, [], []),
    ],
)  # fmt: skip
def test_videos_are_read_and_omissions_are_reported(raw: object, read: list[Video], reasons: list[str]) -> None:
    videos, messages = read_videos(raw, page("listed"))

    assert list(videos) == read
    assert len(messages) == len(reasons)
    assert all(reason.startswith(start) for reason, start in zip(messages, reasons, strict=True))


# ── language versions ──


@pytest.mark.parametrize(
    ("raw", "spelling"),
    [
        ("fr", "fr"), ("EN-us", "en-US"), ("en_GB", "en-GB"), ("zh-hant-tw", "zh-Hant-TW"), ("ZH-HANS", "zh-Hans"),
        (" X-Default", "x-default"), ("iw", "he"), ("in-id", "id-ID"), ("uk-ua", "uk-UA"), ("lo-LA", "lo-LA"),
    ],
)  # fmt: skip
def test_hreflang_has_one_spelling(raw: str, spelling: str) -> None:
    assert hreflang(raw) == spelling
    assert hreflang(spelling) == spelling


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        ("gr", "'gr': gr is no language of ISO 639-1; Greek is el"),
        ("uk-UK", "UK is no country of ISO 3166-1; the United Kingdom is GB, Ukraine is UA"),
        ("en-EU", "EU is no country of ISO 3166-1; there is no code for Europe"),
        ("es-LA", "LA is Laos: give es, or a country such as es-MX"),
        ("es-419", "is no hreflang"),
        ("english", "is no hreflang"),
        ("en-GB-oxendict", "is no hreflang"),
        ("", "is no hreflang"),
        ("xx", "xx is no language of ISO 639-1; give the code that the list has"),
    ],
)
def test_an_unsupported_hreflang_code_is_refused(raw: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        hreflang(raw)


def test_alternates_are_a_list_or_one_object() -> None:
    listed = [
        {"hreflang": "FR", "url": "/fr?utm_source=x"},
        {"hreflang": "de", "url": "http://de.example.org/"},
        {"hreflang": "x-default", "url": PAGE},
    ]
    read = read_alternates(listed, PAGE)

    assert read == (
        (Alternate("de", "http://de.example.org/"), Alternate("fr", page("fr")), Alternate("x-default", PAGE)),
        [],
    )
    assert read_alternates({item["hreflang"]: item["url"] for item in listed}, PAGE) == read


@pytest.mark.parametrize(
    ("raw", "read", "reasons"),
    [
        (
            [{"hreflang": "fr", "url": "/1"}, {"hreflang": "FR", "url": "/2"}, {"hreflang": "fr", "url": "/1#again"}],
            [Alternate("fr", page("1"))], ["alternates[1]: fr was given before, for another URL: give each language once"],
        ),
        (["/fr"], [], ["""alternates[0]: '/fr' is no alternate: give {"hreflang": "fr", "url": …}"""]),
        ([{"url": "/fr"}], [], ["alternates[0]: None is no hreflang: give a text such as en, en-GB or x-default"]),
        ([{"hreflang": "fr"}], [], ["alternates[0]: None is no URL: give one, as a text"]),
        ({"fr": "mailto:a"}, [], ["alternates['fr']: 'mailto:a' is not an absolute http or https URL"]),
        (7, [], ["""alternates: 7 is no alternate: give {"hreflang": "fr", "url": …}"""]),
        (None, [], []),
    ],
)  # fmt: skip
def test_alternates_are_read_and_errors_reported(raw: object, read: list[Alternate], reasons: list[str]) -> None:
    assert read_alternates(raw, PAGE) == (tuple(read), reasons)


def test_of_too_many_alternates_the_first_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ALTERNATES_MAX == 25
    monkeypatch.setattr(alternates_module, "ALTERNATES_MAX", 1)

    assert read_alternates({"fr": "/fr", "de": "/de"}, PAGE) == (
        (Alternate("fr", page("fr")),),
        ["alternates: a page takes 1; the last 1 were left out"],
    )


def test_the_countries_are_those_of_the_time_zone_database() -> None:
    lines = (resources("tzdata") / "zoneinfo/iso3166.tab").read_text(encoding="utf-8").splitlines()
    assert {line.partition("\t")[0] for line in lines if not line.startswith("#")} == COUNTRIES


# ── tags ──


def test_media_that_do_not_fit_are_left_out_old_images_first() -> None:
    images = tuple(page(f"{number}.jpg") for number in range(3))
    videos = (VIDEO, WHOLE)
    versions = (Alternate("de", page("de")), Alternate("fr", page("fr")))
    sizes = [len(tags.encode()) for tags in (alternate_tags(versions), video_tags(videos), image_tags(images))]
    one_image, last_video, version = len(image_tags(images[:1])), len(video_tags([WHOLE]).encode()), sizes[0] // 2

    assert fit(images, videos, versions, sum(sizes)) == (images, videos, versions, [])
    assert fit(images, videos, versions, sum(sizes) - 1) == (
        images[1:],
        videos,
        versions,
        [f"images: the oldest 1 of 3 were left out: a page's tags take {sum(sizes) - 1:,} bytes at most"],
    )
    assert fit(images, videos, versions, sum(sizes) - 2 * one_image)[:3] == (images[2:], videos, versions)
    assert fit((), videos, versions, sum(sizes[:2]) - 1)[:3] == ((), videos[:1], versions)
    assert fit(images, videos, versions, sizes[0] + sizes[1] - last_video + one_image)[:3] == (
        images[2:],
        videos[:1],
        versions,
    )
    assert fit(images, videos, versions, 2 * version - 1)[:3] == ((), (), versions[:1])
    assert len(fit(images, videos, versions, 0)[3]) == 3


# ── any JSON, any text ──

TEXTS = st.text(st.characters() | st.sampled_from("<>&\"'\ud800\u2028 "), max_size=40)
WORDS = st.sampled_from(
    [
        "/a.jpg",
        f"{CDN}/v.mp4?x=1",
        PAGE,
        "https://[",
        "fr",
        "EN-us",
        "x-default",
        "2026-11-20",
        "PT1M",
        "allow GB",
        "yes",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | WORDS
KEYS = st.sampled_from("url hreflang published_at allow deny name info".split() + list(media.READERS))
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | TEXTS, inner, max_size=5), max_leaves=12
)
OPTIONAL = {name: ANY_JSON for name in media.READERS if name not in REQUIRED}
VIDEOS = st.fixed_dictionaries(
    {name: st.just(value) | TEXTS | WORDS for name, value in REQUIRED.items()}, optional=OPTIONAL
)


@pytest.mark.matrix
@needs_shared
@settings(max_examples=100)
@given(VIDEOS)
def test_the_tags_of_any_video_are_valid_by_the_official_schema(raw: Any) -> None:
    official = schema("all.xsd")
    assert official.validate(root(video_tags(read_videos([raw], PAGE)[0]))), official.error_log


@needs_shared
@pytest.mark.parametrize("name", ["shards", "pages", "news", "index"])
def test_the_official_schemas_accept_every_tag(name: str) -> None:
    official = schema("siteindex.xsd" if name == "index" else "all.xsd")
    assert official.validate(etree.fromstring(rendered()[name].encode())), official.error_log
