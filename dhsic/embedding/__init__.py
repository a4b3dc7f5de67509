"""Mean embeddings of samples."""

from dhsic.embedding.fit import load_embedding, mean_embedding
from dhsic.embedding.value import MeanEmbedding, mmd

__all__ = ["MeanEmbedding", "load_embedding", "mean_embedding", "mmd"]
