"""Metrics for CloudWatch, in its embedded metric format: CloudWatch Logs makes metrics of the printed line.

CloudWatch bills a custom metric for each hour in which it is reported. So what did not happen is not reported, and what no alarm
watches is a metric only where the stack has a dashboard. All counts are in the log.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

# Metrics without a dimension: all functions count in the same one, so that one alarm watches them all.
OF_THE_STACK = ("NeedsAttention", "SitesFailing", "WorkFailed")
# Metrics that alarms watch.
WATCHED = (*OF_THE_STACK, "RecordingSeconds", "WebhooksUnverified")
# The format takes at most 100 values of a metric in a line.
VALUES_MAX = 100

Value: TypeAlias = int | Sequence[float]


def publish(values: Mapping[str, Value]) -> None:
    """Print counts, and times in seconds as lists, by name. Zeros and empty lists are left out."""
    reported = {
        name: value if isinstance(value, int) else value[:VALUES_MAX] for name, value in values.items() if value
    }
    if not reported:
        return
    metrics = [name for name in reported if name in WATCHED or os.environ["DASHBOARD"] == "yes"]
    groups = {
        "service": [name for name in metrics if name not in OF_THE_STACK],
        "": [name for name in metrics if name in OF_THE_STACK],
    }
    definitions = [
        {
            "Namespace": os.environ["METRICS_NAMESPACE"],
            "Dimensions": [[dimension] if dimension else []],
            "Metrics": [
                {"Name": name, "Unit": "Count" if isinstance(reported[name], int) else "Seconds"} for name in names
            ],
        }
        for dimension, names in groups.items()
        if names
    ]
    about = {"Timestamp": int(datetime.now(UTC).timestamp() * 1000), "CloudWatchMetrics": definitions}
    line = {"message": "counts", "service": os.environ["POWERTOOLS_SERVICE_NAME"], **reported}
    sys.stdout.write(json.dumps(line | ({"_aws": about} if definitions else {})) + "\n")
