"""What a launch does: the time of each step, beside what this machine can do, and the tasks with what they wait for."""

from pypto.runtime.profiling.measure import profile
from pypto.runtime.profiling.peaks import Peaks, peaks
from pypto.runtime.profiling.result import Operation, Profile, Step
from pypto.runtime.profiling.tasks import Task, task_graph

__all__ = ["Operation", "Peaks", "Profile", "Step", "Task", "peaks", "profile", "task_graph"]
