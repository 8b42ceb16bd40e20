"""Metrics in CloudWatch's embedded metric format, which CloudWatch Logs extracts from printed lines; and the stack's alarms.

CloudWatch bills a custom metric for each hour in which it is reported. So a count of zero is not reported. A count that no alarm
watches becomes a metric only in a stack with a dashboard. The log has every count above zero.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from stoppress.aws.clients import client

# Metrics without a dimension. All functions report the same metric, so that one alarm watches them all.
OF_THE_STACK = ("NeedsAttention", "SitesFailing", "WorkFailed")
# Metrics that alarms watch.
WATCHED = (*OF_THE_STACK, "AuditsFailed", "EnginesFailed", "WebhooksMissed", "WebhooksUnverified")
# The format allows at most 100 values of one metric in a line.
VALUES_MAX = 100

Value: TypeAlias = int | Sequence[float]


def publish(values: Mapping[str, Value]) -> None:
    """Print metrics by name: a number is a count, a list has times in seconds. Zeros and empty lists are left out."""
    reported = {
        name: value if isinstance(value, int) else value[:VALUES_MAX] for name, value in values.items() if value
    }
    if not reported:
        return
    groups: dict[str, list[dict[str, str]]] = {"service": [], "": []}
    for name, value in reported.items():
        if name in WATCHED or os.environ["DASHBOARD"] == "yes":
            unit = "Count" if isinstance(value, int) else "Seconds"
            groups["" if name in OF_THE_STACK else "service"].append({"Name": name, "Unit": unit})
    definitions = [
        {
            "Namespace": os.environ["METRICS_NAMESPACE"],
            "Dimensions": [[dimension] if dimension else []],
            "Metrics": metrics,
        }
        for dimension, metrics in groups.items()
        if metrics
    ]
    about = {"Timestamp": int(datetime.now(UTC).timestamp() * 1000), "CloudWatchMetrics": definitions}
    line = {"message": "counts", "service": os.environ["POWERTOOLS_SERVICE_NAME"], **reported}
    sys.stdout.write(json.dumps(line | ({"_aws": about} if definitions else {})) + "\n")


def firing_alarms(prefix: str) -> list[dict[str, Any]]:
    """Return the alarms in ALARM whose names begin with `prefix`, as DescribeAlarms returns them: 100 at most."""
    answer = client("cloudwatch").describe_alarms(AlarmNamePrefix=prefix, StateValue="ALARM", MaxRecords=100)
    return list(answer["MetricAlarms"])
