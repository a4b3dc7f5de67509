"""Tests of whether three variables interact beyond what their pairs say."""

from dhsic.interaction.lancaster import (
    INTERACTION_ESTIMATORS,
    interaction_test,
    plan_interaction,
)
from dhsic.interaction.result import Factorisation, InteractionTestResult

__all__ = [
    "INTERACTION_ESTIMATORS",
    "Factorisation",
    "InteractionTestResult",
    "interaction_test",
    "plan_interaction",
]
