"""Least privilege: with all grants every scenario passes (test_scenarios), and each removed grant is missed.

A grant is an action of a statement, one of its resources where it names several, or one of the partitions that limit it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest

from stoppress.poll import shares
from stoppress_cli.local import resources
from stoppress_cli.local.guard import missing_grants
from stoppress_cli.local.permissions import Ask, Permissions, Role
from stoppress_cli.local.template import ACCOUNT, REGION, WITH_ALL, load, parse_yaml
from stoppress_cli.scenario import player
from tests.simulation.stack import StackOnDoubles
from tests.support import playing
from tests.support.planting import ROOT, edited_resources, recorded_asks, roles_refused

pytestmark = pytest.mark.matrix

LEADING_KEYS = "dynamodb:LeadingKeys"


@dataclass(frozen=True)
class Grant:
    role: str
    sid: str
    what: str

    def __str__(self) -> str:
        return f"{self.role}-{self.sid}-{self.what}"

    def taken_from(self, resources: dict[str, Any]) -> None:
        """Remove the grant, and its statement if it then allows nothing."""
        [policy] = resources[self.role]["Properties"]["Policies"]
        statements = policy["PolicyDocument"]["Statement"]
        [statement] = [entry for entry in statements if entry["Sid"] == self.sid]
        statement["Action"], keys = _list(statement["Action"]), _leading_keys(statement)
        [part] = [
            part for part in (statement["Action"], keys, _several_resources(statement)) if self.what in map(_text, part)
        ]
        part[:] = [value for value in part if _text(value) != self.what]
        if not part:
            statements.remove(statement)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _leading_keys(statement: dict[str, Any]) -> list[str]:
    conditions = statement.get("Condition", {}).values()
    return next((condition[LEADING_KEYS] for condition in conditions if LEADING_KEYS in condition), [])


def _several_resources(statement: dict[str, Any]) -> list[Any]:
    return statement["Resource"] if isinstance(statement["Resource"], list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def grants() -> Iterator[Grant]:
    """Yield every grant of every role in the template."""
    document = parse_yaml((ROOT / "template.yaml").read_text(encoding="utf-8"))
    for role, resource in document["Resources"].items():
        if resource["Type"] != "AWS::IAM::Role":
            continue
        for policy in resource["Properties"]["Policies"]:
            allowing = [entry for entry in policy["PolicyDocument"]["Statement"] if entry["Effect"] == "Allow"]
            for statement in allowing:
                parts = [*_list(statement["Action"]), *_leading_keys(statement), *_several_resources(statement)]
                yield from (Grant(role, statement["Sid"], _text(part)) for part in parts)


# The scenario that needs a grant, by the beginning of its name, unless it is `publish`.
MISSED_BY = {
    "PollFeedsRole-AnnounceShares": "a-slow-feed-delays-no-other",
    "PollFeedsRole-ReadAndWriteFeedState-dynamodb:GetItem": "a-feed-that-is-pushed",
    "PollFeedsRole-ReadHubSecret": "a-hub-that-does-not-answer",
    "PollFeedsRole": "a-feed-read-once-is-asked-conditionally",
    "ReceivePushRole": "a-feed-that-is-pushed",
    "ReconcileSitesRole-WritePlacesAndSuspects-places#": "entries-and-places-that-nobody-has-are-put-right-at-night",
    "ReconcileSitesRole-CheckArticlesAndClaims": "entries-and-places-that-nobody-has-are-put-right-at-night",
    "ReconcileSitesRole-ReadFilesAndDeleteOrphans-s3:DeleteObject": "an-object-that-nothing-names-goes-after-a-day",
    "ReconcileSitesRole-DeleteEntries": "entries-and-places-that-nobody-has-are-put-right-at-night",
    "ReconcileSitesRole": "what-hands-have-done-to-the-bucket-is-mended-at-night",
    "RecordArticleRole-ReadTitles": "unpublish",
    "RecordArticleRole-RecordArticles-dynamodb:DeleteItem": "scheduled-story",
    "RecordArticleRole-RecordArticles-due": "scheduled-story",
    "RecordArticleRole-ReceiveArticles-sqs:ChangeMessageVisibility": "the-table-fails-while-recording",
    "RecordArticleRole-RecordArticles-quarantine#": "bad-bus-events",
    "RecordArticleRole-RecordArticles-refused#": "bodies-that-are-not-accepted",
    "RecordArticleRole-WriteStories-refused#": "bodies-that-are-not-accepted",
    "RewriteSitemapsRole-ReadAndWriteFiles-s3:DeleteObject": "emptied-shard",
    "RewriteSitemapsRole-ReadPartitionsAndMarkFiles-dynamodb:BatchGetItem": "changes-folded-into-large-files",
    "RewriteSitemapsRole-ReadPartitionsAndMarkFiles-due#": "emptied-shard",
    "RewriteSitemapsRole-ReadPartitionsAndMarkFiles-dynamodb:DeleteItem": "emptied-shard",
    "RewriteSitemapsRole-SendRewrites": "a-file-that-cannot-be-written",
    "RewriteSitemapsRole-ReceiveRewrites-sqs:ChangeMessageVisibility": "a-file-that-cannot-be-written",
    "RewriteSitemapsRole-ListFilesOfAChangedSite-dynamodb:GetItem": "gzip-text-and-atom",
    "RollWindowRole-AddTheFirstSite": "the-first-site",
    "RollWindowRole-ReadDueRecords-due#": "scheduled-story",
    "RollWindowRole-ReadDueRecords-file#": "empty-window",
    "RollWindowRole-ReadDueRecords-places#": "empty-window",
    "RollWindowRole-FreePlaces": "empty-window",
    "RollWindowRole-WriteDueRecords-dynamodb:DeleteItem": "empty-window",
    "RollWindowRole-ReadSites-dynamodb:BatchGetItem": "scheduled-story",
    'RollWindowRole-SendDueMessages-{"Fn::GetAtt": ["RewritesQueue"': "emptied-shard",
    "RollWindowRole-ListFilesOfTheFirstSite": "the-first-site",
    "RollWindowRole-SendDueMessages": "scheduled-story",
    "RollWindowRole-DeleteExpiredEntries": "empty-window",
}


# The calls of AWS itself with each role.
OF_AWS = ("WriteLog", "ReportFailures")
# Lambda receives messages with the role.
OF_MAPPINGS = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
# No scenario requests a page, imports, is audited or has engines: test_page.py, test_audits.py and test_engines.py in
# tests/local_stack test these grants.
OF_AUDITS = [grant for grant in grants() if grant.role == "AuditSourcesRole" and grant.sid not in OF_AWS]
OF_ENGINES = [
    grant
    for grant in grants()
    if grant.role == "NotifyEnginesRole" and grant.sid not in OF_AWS and grant.what not in OF_MAPPINGS
]
OF_PAGES = [grant for grant in grants() if grant.role == "ShowSiteRole" and grant.sid not in OF_AWS]
# No scenario deploys another version of the code.
OF_DEPLOYMENTS = [grant for grant in grants() if (grant.role, grant.sid) == ("RollWindowRole", "ListSites")]
OF_IMPORTS = Grant("RecordArticleRole", "ReceiveImports", "sqs:ChangeMessageVisibility")
_TRIED_ELSEWHERE = (*OF_AUDITS, *OF_ENGINES, *OF_PAGES, *OF_DEPLOYMENTS, OF_IMPORTS)
OF_SCENARIOS = [grant for grant in grants() if grant not in _TRIED_ELSEWHERE]


@cache
def asks_of(scenario: str) -> list[tuple[Role, Ask]]:
    """Return the permissions that a scenario uses, with their roles, each once."""
    path = playing.SCENARIOS / f"{scenario}.jsonl"
    lines = playing.read(path)
    with (
        TemporaryDirectory() as out,
        mock.patch.object(shares, "FEEDS_A_RUN", 1),
        StackOnDoubles(playing.TEMPLATE, start=lines[0].at) as stack,
        recorded_asks(stack) as asks,
        player.playing(stack, path, Path(out), lambda _line, _text: None) as opened,
    ):
        opened.play(lines)
        stack.rest()
    return list({(role.arn, str(ask)): (role, ask) for role, ask in asks}.values())


@pytest.mark.parametrize("grant", OF_SCENARIOS, ids=str)
def test_a_removed_grant_is_detected(grant: Grant) -> None:
    edited = edited_resources(grant.taken_from)
    permissions = Permissions(edited)
    name = next((name for start, name in MISSED_BY.items() if str(grant).startswith(start)), "publish")
    # The calls of AWS itself with the role happen before anything runs.
    missing = missing_grants(edited, permissions)
    refused = {line.partition(": ")[2].partition(" does not allow")[0] for line in missing}

    assert (refused or roles_refused(asks_of(name), permissions)) == {grant.role}, (
        f"{name} passes without it: take it out of the template, or name a scenario that needs it"
    )


READ_BY = {
    "webhooks/www.example.com/cms": "ReceiveWebhook",
    "webhooks/shared/cms": "ReceiveWebhook",
    "lists/www.example.com/cms": "AuditSources",
    "lists/shared/cms": "AuditSources",
    "engines/www.example.com/cms": "NotifyEngines",
    "engines/shared/cms": "NotifyEngines",
    "page": "ShowSite",
}


def test_each_secret_of_a_site_is_read_by_one_function() -> None:
    resolved = resources.resolve(load(ROOT / "template.yaml", WITH_ALL))
    permissions = Permissions(resolved)
    functions = resources.of_type(resolved, "AWS::Lambda::Function")
    readers: dict[str, list[str]] = {name: [] for name in READ_BY}
    for function in functions:
        role = permissions.role_of(function.logical)
        assert role is not None
        for name, names in readers.items():
            arn = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:stoppress/stoppress/{name}-AbCdEf"
            if permissions.may(role, Ask("secretsmanager:GetSecretValue", arn)):
                names.append(function.logical)

    assert readers == {name: [reader] for name, reader in READ_BY.items()}
