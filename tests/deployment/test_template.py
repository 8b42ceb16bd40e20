"""The stack's guarantees, read from the template after the SAM transform, as AWS reads it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stoppress.aws.items import HEARTBEAT
from stoppress.aws.queues import retry_delay_seconds
from stoppress.aws.sites import CURRENT, site_pk
from stoppress.poll import shares
from stoppress_cli.local import resources, template

ROOT = Path(__file__).parents[2]
STACK = template.load(ROOT / "template.yaml")
RESOURCES = STACK.resources
FUNCTIONS = sorted(STACK.code)
# dynamodb:ListStreams has no narrower resource.
ANY_RESOURCE = [("RewriteSitemapsRole", "dynamodb:ListStreams")]
# Distributions are in other stacks: a parameter lists them.
READERS = {"Ref": "ReaderDistributionArns"}


def of_type(*types: str) -> dict[str, dict[str, Any]]:
    matching = {name: resource["Properties"] for name, resource in RESOURCES.items() if resource["Type"] in types}
    assert matching, f"the template has no {' or '.join(types)}"
    return matching


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def statements() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, role in of_type("AWS::IAM::Role").items():
        for policy in role["Policies"]:
            for statement in as_list(policy["PolicyDocument"]["Statement"]):
                yield name, statement


def events_to(queue: str) -> set[str]:
    """Return the names of the rules that a queue's policy allows."""
    rules: set[str] = set()
    for policy in of_type("AWS::SQS::QueuePolicy").values():
        if policy["Queues"] != [{"Ref": queue}]:
            continue
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Principal"] == {"Service": "events.amazonaws.com"}
            assert statement["Action"] == "sqs:SendMessage"
            assert statement["Resource"] == {"Fn::GetAtt": [queue, "Arn"]}
            sources = as_list(statement["Condition"]["ArnEquals"]["aws:SourceArn"])
            sources = [source["Fn::If"][1] if "Fn::If" in source else source for source in sources]
            rules |= {source["Fn::GetAtt"][0] for source in sources}
    return rules


def queue_of(arn: Any) -> str:
    """Return the stack's queue to which an ARN in the template refers."""
    name, attribute = arn["Fn::GetAtt"]
    assert attribute == "Arn"
    assert name in of_type("AWS::SQS::Queue")
    return str(name)


def contains(value: Any, text: str) -> bool:
    return text in json.dumps(value)


def test_a_function_has_its_own_role_and_log_and_runs_on_what_the_layer_is_built_for() -> None:
    [(layer_name, layer)] = of_type("AWS::Lambda::LayerVersion").items()
    runtime, architecture = layer["CompatibleRuntimes"], layer["CompatibleArchitectures"]

    assert (runtime, architecture) == (["python3.13"], ["arm64"])
    for name in FUNCTIONS:
        properties = RESOURCES[name]["Properties"]
        assert properties["Role"] == {"Fn::GetAtt": [f"{name}Role", "Arn"]}
        assert properties["LoggingConfig"] == {"LogGroup": {"Ref": f"{name}Log"}, "LogFormat": "JSON"}
        assert ([properties["Runtime"]], properties["Architectures"]) == (runtime, architecture), name
        assert properties["Layers"] == [{"Ref": layer_name}]


def test_a_role_is_assumed_by_one_service_and_allows_no_wildcard() -> None:
    for name, role in of_type("AWS::IAM::Role").items():
        [statement] = role["AssumeRolePolicyDocument"]["Statement"]
        assert len(as_list(statement["Principal"]["Service"])) == 1, name
        assert "ManagedPolicyArns" not in role, f"{name}: what a managed policy allows is not written here"
    allowed = [(role, action, grant["Resource"]) for role, grant in statements() for action in as_list(grant["Action"])]

    assert [(role, action) for role, action, resource in allowed if "*" in as_list(resource)] == ANY_RESOURCE
    assert not [(role, action) for role, action, _ in allowed if "*" in action]


def test_every_statement_on_items_is_limited_to_some_partitions() -> None:
    for role, statement in statements():
        if any(action.startswith("dynamodb:") for action in as_list(statement["Action"])):
            followed = "Stream" in json.dumps(statement["Resource"]) or statement["Resource"] == "*"
            assert followed or contains(statement.get("Condition", {}), "dynamodb:LeadingKeys"), (
                f"{role}: {statement['Sid']}"
            )


def test_a_statement_covers_only_resources_of_this_stack() -> None:
    for role, statement in statements():
        for resource in as_list(statement["Resource"]):
            own = "Fn::GetAtt" in resource or "Ref" in resource if isinstance(resource, dict) else False
            # The imports queue exists with Listing=yes only, so its grant has CloudFormation's name for it.
            named = any(
                contains(resource, part)
                for part in ("${AWS::StackName}/", "${AWS::StackName}-ImportsQueue*", "${Bucket.Arn}")
            )
            gated = isinstance(resource, dict) and resource.get("Fn::If", [])[:2] == ["HasReaders", READERS]
            assert own or named or gated or (role, *as_list(statement["Action"])) in ANY_RESOURCE, f"{role}: {resource}"


def test_a_statement_limited_to_partitions_allows_no_action_without_one() -> None:
    for role, statement in statements():
        for operator, condition in statement.get("Condition", {}).items():
            if "dynamodb:LeadingKeys" not in condition:
                continue
            # ForAllValues is true without any keys, so it must not be on actions without keys, such as Scan.
            assert operator in {"ForAllValues:StringEquals", "ForAllValues:StringLike"}, role
            assert not set(as_list(statement["Action"])) & {"dynamodb:Scan", "dynamodb:PartiQLSelect"}, role


def test_an_event_source_reports_the_records_that_failed_and_only_those_return() -> None:
    for name, mapping in of_type("AWS::Lambda::EventSourceMapping").items():
        assert mapping.get("FunctionResponseTypes") == ["ReportBatchItemFailures"], name


def mapping_of(resource: str, attribute: str) -> dict[str, Any]:
    """Return the event source mapping of a queue or of the table's stream."""
    mappings = of_type("AWS::Lambda::EventSourceMapping").values()
    [mapping] = [item for item in mappings if item["EventSourceArn"] == {"Fn::GetAtt": [resource, attribute]}]
    return mapping


def test_the_stream_is_read_from_its_beginning_and_drops_nothing() -> None:
    stream = mapping_of("Table", "StreamArn")
    filters = [json.loads(item["Pattern"])["dynamodb"]["Keys"] for item in stream["FilterCriteria"]["Filters"]]

    assert stream["StartingPosition"] == "TRIM_HORIZON"
    assert filters == [
        {"pk": {"S": [{"prefix": "file#"}, HEARTBEAT]}},
        {"pk": {"S": [{"prefix": site_pk("")}]}, "sk": {"S": [CURRENT]}},
    ]
    assert not stream.keys() & {"MaximumRetryAttempts", "MaximumRecordAgeInSeconds"}  # both would lose records


def test_a_queue_hides_a_message_for_six_times_as_long_as_its_function_may_take() -> None:
    for name, mapping in of_type("AWS::Lambda::EventSourceMapping").items():
        if not contains(mapping["EventSourceArn"], "Queue"):
            continue
        queue = RESOURCES[queue_of(mapping["EventSourceArn"])]["Properties"]
        function = RESOURCES[mapping["FunctionName"]["Ref"]]["Properties"]
        assert queue["VisibilityTimeout"] >= 6 * function["Timeout"], name


def test_a_consumed_queue_has_a_dead_letter_queue_and_waits_long_enough() -> None:
    consumed = {
        queue_of(mapping["EventSourceArn"])
        for mapping in of_type("AWS::Lambda::EventSourceMapping").values()
        if contains(mapping["EventSourceArn"], "Queue")
    }
    dead = set()
    for name in consumed - {"RewritesQueue"}:  # its messages are retried until an operator has removed the cause
        redrive = RESOURCES[name]["Properties"]["RedrivePolicy"]
        dead.add(queue_of(redrive["deadLetterTargetArn"]))
        # AWS advises at least five, so that throttling does not make valid messages dead letters.
        assert redrive["maxReceiveCount"] >= 5

    assert not dead & consumed
    for name, queue in of_type("AWS::SQS::Queue").items():
        assert queue["MessageRetentionPeriod"] == 14 * 86_400, f"{name}: fourteen days are the most SQS keeps"
        assert queue["SqsManagedSseEnabled"] is True, name


def test_a_message_becomes_a_dead_letter_no_earlier_than_documented() -> None:
    receives = RESOURCES["ArticlesQueue"]["Properties"]["RedrivePolicy"]["maxReceiveCount"]
    minutes = sum(map(retry_delay_seconds, range(1, receives))) // 60
    text = (ROOT / "docs" / "explanation" / "promises.md").read_text()
    assert f"{receives} attempts over at least {minutes} minutes" in " ".join(text.split())


def test_a_file_is_rewritten_alone_and_tried_again_within_ten_minutes() -> None:
    assert mapping_of("RewritesQueue", "Arn")["BatchSize"] == 1
    assert RESOURCES["RewritesQueue"]["Properties"]["VisibilityTimeout"] < 600


def test_every_asynchronous_invocation_has_a_failure_destination() -> None:
    scheduled = {
        schedule["Target"]["Arn"]["Fn::GetAtt"][0]: schedule
        for schedule in of_type("AWS::Scheduler::Schedule").values()
    }
    configured = {
        config["FunctionName"]["Ref"]: config for config in of_type("AWS::Lambda::EventInvokeConfig").values()
    }
    by_rule = {
        target["Arn"]["Fn::GetAtt"][0]
        for rule in of_type("AWS::Events::Rule").values()
        for target in rule["Targets"]
        if target["Arn"]["Fn::GetAtt"][0] in FUNCTIONS
    }

    assert configured.keys() == scheduled.keys() | by_rule
    for config in configured.values():
        assert queue_of(config["DestinationConfig"]["OnFailure"]["Destination"])
    for name, schedule in scheduled.items():
        assert "DeadLetterConfig" in schedule["Target"], name
        assert queue_of(schedule["Target"]["DeadLetterConfig"]["Arn"])


def test_a_rule_has_a_dead_letter_queue_and_the_queues_let_the_rules_in() -> None:
    pairs: set[tuple[str, str]] = set()
    for name, rule in of_type("AWS::Events::Rule").items():
        for target in rule["Targets"]:
            pairs.add((queue_of(target["DeadLetterConfig"]["Arn"]), name))
            if target["Arn"]["Fn::GetAtt"][0] not in FUNCTIONS:
                pairs.add((queue_of(target["Arn"]), name))
    queues = {queue for queue, _ in pairs}

    assert {(queue, rule) for queue in queues for rule in events_to(queue)} == pairs


def test_an_announcement_on_the_bus_does_not_match_the_rule_for_articles() -> None:
    rules = {
        target["Arn"]["Fn::GetAtt"][0]: rule["EventPattern"]
        for rule in of_type("AWS::Events::Rule").values()
        if "EventBusName" in rule
        for target in rule["Targets"]
        if target["Arn"]["Fn::GetAtt"][0] not in FUNCTIONS
    }

    prefixes = [{"prefix": {"equals-ignore-case": prefix}} for prefix in ("article.", "page.")]
    assert rules.keys() == {"ArticlesQueue", "EnginesQueue"}
    assert rules["ArticlesQueue"] == {"detail-type": prefixes}


def test_a_share_of_the_feeds_is_leased_for_longer_than_a_run_can_take() -> None:
    assert shares.LEASE.total_seconds() > RESOURCES["PollFeeds"]["Properties"]["Timeout"]


def alarm_metrics() -> dict[str, list[dict[str, Any]]]:
    metrics = {}
    for name, alarm in of_type("AWS::CloudWatch::Alarm").items():
        parts = [part["MetricStat"]["Metric"] for part in alarm.get("Metrics", []) if "MetricStat" in part]
        metrics[name] = parts or [alarm]
    return metrics


def test_the_lag_alarm_watches_the_function_that_reads_the_stream() -> None:
    [late] = [part for parts in alarm_metrics().values() for part in parts if part["MetricName"] == "IteratorAge"]
    stream = mapping_of("Table", "StreamArn")

    assert late["Dimensions"] == [{"Name": "FunctionName", "Value": stream["FunctionName"]}]


def test_a_crash_counts_as_failed_work_in_every_function_that_answers_no_request() -> None:
    filters = of_type("AWS::Logs::MetricFilter").values()
    logs = {
        function["LoggingConfig"]["LogGroup"]["Ref"]: name
        for name, function in of_type("AWS::Lambda::Function").items()
        if not name.startswith(("Receive", "Show"))
    }

    assert {item["LogGroupName"]["Ref"] for item in filters} == logs.keys()
    assert len(filters) == len(logs)
    for item in filters:
        # With two units in one metric an alarm behaves unpredictably (AWS, PutMetricAlarm). The functions count in Count.
        assert [(part["MetricName"], part["Unit"]) for part in item["MetricTransformations"]] == [
            ("WorkFailed", "Count")
        ]
        assert all("DefaultValue" not in part for part in item["MetricTransformations"])  # otherwise a metric each hour


def test_metrics_and_the_alarms_on_them_are_the_stacks_own() -> None:
    own = {"Fn::Sub": "Stoppress/${AWS::StackName}"}
    counted = {json.dumps(function["Environment"]["Variables"]["METRICS_NAMESPACE"])
               for function in of_type("AWS::Lambda::Function").values()}  # fmt: skip
    filtered = [
        metric["MetricNamespace"]
        for item in of_type("AWS::Logs::MetricFilter").values()
        for metric in item["MetricTransformations"]
    ]
    names = [metric["Namespace"] for metrics in alarm_metrics().values() for metric in metrics] + filtered

    assert counted == {json.dumps(own)}
    assert all(name == own or name.startswith("AWS/") for name in names)


def test_names_that_are_unique_in_an_account_contain_the_stacks_name() -> None:
    named = of_type("AWS::Scheduler::Schedule", "AWS::Events::EventBus", "AWS::SecretsManager::Secret")
    for name, properties in named.items():
        assert contains(properties["Name"], "${AWS::StackName}"), name


# A rollback cannot delete a protected table or a bucket with files. Fixed names must not block the next attempt.
RETAINED = {"Table": "Retain", "Bucket": "Retain", "BucketPolicy": "Retain", "FirstSecret": "RetainExceptOnCreate"}


def test_deleting_the_stack_keeps_data_that_cannot_be_recreated() -> None:
    for name, policy in RETAINED.items():
        resource = RESOURCES[name]
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == (policy, "Retain"), name


def test_the_table_has_point_in_time_recovery_and_a_time_to_live() -> None:
    table = RESOURCES["Table"]["Properties"]

    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert (
        "SSESpecification" not in table
    )  # DynamoDB's own key encrypts it at no price; a key in KMS is paid by request
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}


def test_the_bucket_has_no_acls_and_requires_tls() -> None:
    deny = RESOURCES["BucketPolicy"]["Properties"]["PolicyDocument"]["Statement"][0]
    owner = RESOURCES["Bucket"]["Properties"]["OwnershipControls"]

    assert owner == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


def test_every_dead_letter_queue_the_failures_and_each_queue_of_work_have_an_alarm() -> None:
    by_metric: dict[str, set[str]] = {}
    for metric in [metric for metrics in alarm_metrics().values() for metric in metrics]:
        if metric["Namespace"] == "AWS/SQS":
            [dimension] = metric["Dimensions"]
            by_metric.setdefault(metric["MetricName"], set()).add(dimension["Value"]["Fn::GetAtt"][0])
    queues = of_type("AWS::SQS::Queue")
    dead = {
        queue["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
        for queue in queues.values()
        if "RedrivePolicy" in queue
    }

    assert by_metric == {
        "ApproximateNumberOfMessagesVisible": dead,
        "NumberOfMessagesSent": {"Failures"},  # a message that SQS moves to a dead-letter queue does not count as sent
        "ApproximateNumberOfMessagesNotVisible": {"RewritesQueue"},  # it has no dead letters
        "ApproximateAgeOfOldestMessage": set(queues) - dead - {"Failures"},
    }


def test_alarm_and_ok_go_to_one_topic_and_advisory_alarms_to_another() -> None:
    for name, alarm in of_type("AWS::CloudWatch::Alarm").items():
        can_wait = name.startswith(("Attention", "AuditsFailed", "Engines", "Imports", "WebhooksMissed"))
        topic = "Notices" if can_wait else "Alarms"
        assert (alarm["AlarmActions"], alarm["OKActions"]) == ([{"Ref": topic}], [{"Ref": topic}]), name


def test_engines_that_are_off_cost_no_resource_and_no_grant() -> None:
    def names(engines: str) -> set[str]:
        loaded = template.load(ROOT / "template.yaml", {"Engines": engines})
        holds = template.Resolver(loaded, {}, template.STACK_NAME).holds
        named = loaded.resources.items()
        return {name for name, item in named if "Condition" not in item or holds(item["Condition"])}

    def properties(engines: str) -> dict[str, str]:
        resolved = resources.resolve(template.load(ROOT / "template.yaml", {"Engines": engines}))
        return {item.logical: json.dumps(item.properties, default=str) for item in resolved}

    assert names("no") < names("yes")
    without, with_engines = properties("no"), properties("yes")
    # The rule may send to the failures. Nothing else of the stack changes.
    assert {name for name in without if without[name] != with_engines[name]} == {"FailuresPolicy"}
    assert not [name for name, text in without.items() if "notified#" in text or "ENGINES" in text]
