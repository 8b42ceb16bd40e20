"""Stoppress: the rules and doors that its functions share.

The pure middle: instants, text, languages, urls, site, contract, article, state, deciding, places, files, records, feeds, signatures.
The doors: aws, sites (SSM), secrets (Secrets Manager), table (DynamoDB), bucket (S3), queues (SQS, EventBridge), web (HTTP).
The workers, which bring both together: recording, rewriting, rolling, polling.
"""
