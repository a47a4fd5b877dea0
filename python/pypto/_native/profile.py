"""Where the time of a launch goes, and what the machine can do."""

from pypto._pypto import instruction_set as instruction_set
from pypto._pypto import measure_peaks as measure_peaks
from pypto._pypto import take_profile as take_profile
from pypto._pypto import take_tasks as take_tasks
