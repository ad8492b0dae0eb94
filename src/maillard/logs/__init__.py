"""Logs of decisions: what they hold, reading, writing, checking and describing them."""

from .log import Log
from .schema import Batch

__all__ = ["Batch", "Log"]
