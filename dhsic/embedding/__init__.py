"""Mean embeddings of samples."""

from dhsic.embedding.embeddings import MeanEmbedding, load_embedding, mean_embedding, mmd

__all__ = ["MeanEmbedding", "load_embedding", "mean_embedding", "mmd"]
