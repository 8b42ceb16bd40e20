"""Other people's material beside the repository, which some tests read: real feeds, deliveries of CMSs, official schemas.

Nothing of it is part of the project; where it is absent, those tests are skipped.
"""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the material that this reads is not beside the repository"
)
