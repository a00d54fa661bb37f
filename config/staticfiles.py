"""Under which name is a static file served? With a hash in it once collected, else plainly.

``make run`` collects and compresses; development and tests read the files where they lie.
"""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class CollectedStorage(CompressedManifestStaticFilesStorage):
    """Hashed names, or plain ones as long as nothing was collected."""

    def stored_name(self, name: str) -> str:
        stored: str = super().stored_name(name) if self.hashed_files else name
        return stored
