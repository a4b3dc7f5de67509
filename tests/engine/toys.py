"""A store that counts."""

from collections import Counter

from zarr.storage import WrapperStore


class CountingStore(WrapperStore):
    """A zarr store that counts how often each chunk is read."""

    def __init__(self, store):
        super().__init__(store)
        self.reads = Counter()

    async def get(self, key, *args, **options):
        if "/c/" in f"/{key}":
            self.reads[key] += 1
        return await super().get(key, *args, **options)
