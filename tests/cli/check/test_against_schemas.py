"""`stoppress check`, which does not read the official schemas, reports each file that they reject."""

import copy
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st
from lxml import etree

from stoppress_cli.check import checker
from stoppress_cli.check.findings import Findings
from stoppress_cli.check.input import Source
from tests.cli.check.test_planted import AT
from tests.support.adjacent_paths import needs_shared
from tests.support.check_good_site import BASE, INDEX, MEDIA, NEWS, SHARD, good
from tests.support.saved_files import schema

pytestmark = needs_shared

VIDEO = "{http://www.google.com/schemas/sitemap-video/1.1}"
XHTML_LINK = "Element '{http://www.w3.org/1999/xhtml}link', attribute"
TEXTS = st.sampled_from([
    "", " ", "x", "0", "-1", "1.0", "99999", "yes", "no", "2026-11-20", "2026-11-20T08:00:00", "2026-13-01", "en-US", "/x",
    "2026-11-20T08:00Z", "2026-11-20T25:00:00Z", "https://www.example.com/x", "x" * 3_000, "zh-cn", "GB,FR", "web, tv",
])  # fmt: skip


def is_ignored(message: str) -> bool:
    """Return True if an error is about the order of a video's tags, or about attributes of a link, which XHTML defines."""
    return (VIDEO in message and "This element is not expected" in message) or message.startswith(XHTML_LINK)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, Any]:
    """Draw a valid file in which one or two elements are removed, doubled, moved, renamed or changed."""
    name = draw(st.sampled_from([INDEX, NEWS, SHARD, MEDIA]))
    root = etree.fromstring(good().files[name])
    for _ in range(draw(st.integers(1, 2))):
        elements = list(root.iter(tag=etree.Element))[1:]
        assume(elements)
        element = draw(st.sampled_from(elements))
        parent = element.getparent()
        others = [other for other in elements if other is not element and element not in other.iterancestors()]
        match draw(st.sampled_from(["out", "double", "last", "into", "rename", "text", "attribute", "less"])):
            case "out":
                parent.remove(element)
            case "double":
                parent.append(copy.deepcopy(element))
            case "last":
                parent.append(element)
            case "into" if others:
                draw(st.sampled_from(others)).append(element)
            case "rename" if others:
                element.tag = draw(st.sampled_from(others)).tag
            case "text" if element.text and not len(element):
                element.text = draw(TEXTS)
            case "attribute":
                element.set(draw(st.sampled_from(["rel", "relationship", "info", "hreflang", "x"])), draw(TEXTS))
            case "less" if element.attrib:
                del element.attrib[draw(st.sampled_from(sorted(element.attrib)))]
    return name, root


@pytest.mark.matrix
@settings(max_examples=500)
@given(file=damaged())
def test_each_schema_error_is_reported(file: tuple[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    name, root = file
    judge = schema("siteindex.xsd" if name == INDEX else "all.xsd")
    assume(not judge.validate(root))
    messages = [error.message for error in judge.error_log if not is_ignored(error.message)]
    assume(messages)
    path = tmp_path_factory.getbasetemp() / "sitemap.xml"
    path.write_bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8"))
    report = Findings(each_max=20)
    checker.check([Source(name, f"{BASE}{name}", path)], report, AT, is_all=False)

    assert list(report), messages


@pytest.mark.parametrize("name", [INDEX, NEWS, SHARD, MEDIA])
def test_the_good_files_are_valid_by_the_schemas(name: str) -> None:
    judge = schema("siteindex.xsd" if name == INDEX else "all.xsd")

    assert judge.validate(etree.fromstring(good().files[name])), judge.error_log
