"""Machine code: decoded, priced, and simulated on a model of one SM.

`control`, `operand`, `lines` and `program` say what is there; `pricing`, `ports`, `counts`, `occupancy` and
`simulate` say what it costs; `inspection` puts both together and `report` prints it.
"""

from layoutgen.sass.control import Control
from layoutgen.sass.program import Instruction, Loop, Program, decode

__all__ = ["Control", "Instruction", "Loop", "Program", "decode"]
