"""Execution plans: what a synth target writes out, as frozen data.

A plan fixes what carries out every operator, what is fused, the order of steps and where every value lives. Passes fill
it; a target's emitter only reads it.
"""

from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plan.limits import limits_of, refuse_unlimited
from openinfer.plan.make_plan import make_plan
from openinfer.plan.plan_options import PlanOptions

__all__ = ["ExecutionPlan", "PlanOptions", "limits_of", "make_plan", "refuse_unlimited"]
