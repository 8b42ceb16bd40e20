"""Stoppress: the rules and doors that its functions share.

The pure middle: instants, text, languages, urls, site, contract, article, state, deciding, places, files, records, feeds, signatures.
The doors: aws, sites (SSM), secrets (Secrets Manager), table (DynamoDB), bucket (S3), queues (SQS, EventBridge), web (HTTP).
The workers, which bring both together: recording, rewriting, rolling, polling.
"""

import gc
import os

# What a cold start makes is there to stay; Python looks through it for garbage again and again, every 2,000 objects.
LAMBDA_GC_THRESHOLD = 200_000
if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    gc.set_threshold(LAMBDA_GC_THRESHOLD)
