"""Each hour: list each source, and send events for articles whose webhooks never came."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws.clients import in_time

logger = Logger()


@logger.inject_lambda_context
@in_time
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handle a schedule's event."""
