"""Mean embeddings of samples."""

from dhsic.embedding.fit import mean_embedding
from dhsic.embedding.value import MeanEmbedding, load_embedding, mmd

__all__ = ["MeanEmbedding", "load_embedding", "mean_embedding", "mmd"]
