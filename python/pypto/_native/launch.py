"""Programs and their launches."""

from pypto._pypto import BoundLaunch as BoundLaunch
from pypto._pypto import Program as Program
from pypto._pypto import QueuedLaunch as QueuedLaunch
from pypto._pypto import RegistrationHandle as RegistrationHandle
from pypto._pypto import check_arguments as check_arguments
