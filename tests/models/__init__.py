"""Kernels as users write them: a small decoder layer from parts in several files."""
