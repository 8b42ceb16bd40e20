"""The stack's alarms in CloudWatch."""

from typing import Any

from stoppress.aws.clients import client


def ringing(prefix: str) -> list[dict[str, Any]]:
    """The alarms in the state ALARM whose names begin with `prefix`, as DescribeAlarms returns them: 100 at most."""
    answer = client("cloudwatch").describe_alarms(AlarmNamePrefix=prefix, StateValue="ALARM", MaxRecords=100)
    return list(answer["MetricAlarms"])
