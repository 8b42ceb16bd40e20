"""What the functions share. `docs/explanation/architecture.md` maps the rooms."""

import gc
import os

# Objects made at a cold start stay alive, so a search for garbage finds none. By default Python searches after every
# 2,000 new objects.
LAMBDA_GC_THRESHOLD = 200_000
if "AWS_LAMBDA_FUNCTION_NAME" in os.environ:
    gc.set_threshold(LAMBDA_GC_THRESHOLD)
