"""Recordings of spans."""

from pypto._pypto import Recording as Recording
from pypto._pypto import TraceFile as TraceFile
from pypto._pypto import mirror_trace as mirror_trace
from pypto._pypto import trace_available as trace_available
