"""Opened devices."""

from pypto._pypto import Worker as Worker
