"""Device tensors, and the allocations behind them."""

from pypto._pypto import Buffer as Buffer
from pypto._pypto import DeviceTensor as DeviceTensor
