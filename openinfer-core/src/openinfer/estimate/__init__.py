"""What a plan costs and why it is as it is: operations, bytes, cycles by the cost model, accesses, memory.

`work` counts what computations and loop programs do, `steps` joins it with schedules and live ranges for every step,
`text` and `document` show it.
"""

from openinfer.estimate.document import plan_document
from openinfer.estimate.steps import PlanEstimate, StageChoice, StepEstimate, estimate
from openinfer.estimate.text import estimate_text

__all__ = ["PlanEstimate", "StageChoice", "StepEstimate", "estimate", "estimate_text", "plan_document"]
