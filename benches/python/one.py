"""Answers one question in this process: `one.py QUESTION THREADS SECONDS`; the last line is its results as JSON."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict

import torch
from settings import ALONE


def main() -> None:
    """Measures and prints."""
    question, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(threads)
    module = importlib.import_module(question)
    results = module.results() if question in ALONE else module.results(threads, seconds)
    print(json.dumps([asdict(result) for result in results]))


if __name__ == "__main__":
    main()
