"""What the functions share. `docs/explanation/architecture.md` maps the rooms."""

import gc
import os

# Objects made at a cold start stay alive, so Python searches them for garbage in vain. It would do so after every 2,000
# new ones.
LAMBDA_GC_THRESHOLD = 200_000
if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    gc.set_threshold(LAMBDA_GC_THRESHOLD)
