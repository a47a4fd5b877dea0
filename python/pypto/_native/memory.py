"""What device memory is used for."""

from pypto._pypto import MemoryReport as MemoryReport
from pypto._pypto import MemoryScope as MemoryScope
