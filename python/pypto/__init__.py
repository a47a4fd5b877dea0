"""Tile kernels written in Python, run by a Rust runtime on an Ascend-style chip or its simulator."""
