"""CloudFront: a distribution forgets files before their age ends."""

from collections.abc import Sequence

from stoppress.aws.clients import client


def invalidate(distribution: str, paths: Sequence[str], reference: str) -> None:
    """Have a distribution forget the files at these paths. Raises ClientError and BotoCoreError.

    A second call with the same reference and paths does nothing and costs nothing (CloudFront API reference, InvalidationBatch).
    """
    batch = {"Paths": {"Quantity": len(paths), "Items": list(paths)}, "CallerReference": reference}
    client("cloudfront").create_invalidation(DistributionId=distribution, InvalidationBatch=batch)
