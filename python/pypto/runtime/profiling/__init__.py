"""Profiles: where a program's device time goes, step by step, beside what this machine can do."""

from pypto.runtime.profiling.measure import profile
from pypto.runtime.profiling.peaks import Peaks, peaks
from pypto.runtime.profiling.result import Operation, Profile, Step

__all__ = ["Operation", "Peaks", "Profile", "Step", "peaks", "profile"]
