"""Asks a Tutti cluster for inference by a deadline, over NATS: `connect` for asyncio, `connect_sync` for threads."""

from .client import SyncTutti, Tutti, connect, connect_sync
from .errors import DeadlineExceeded, InvalidInput, Refused, TuttiError, Unavailable
from .flight import Duration, InferOptions, InferResult

__all__ = ["DeadlineExceeded", "Duration", "InferOptions", "InferResult", "InvalidInput", "Refused"]
__all__ += ["SyncTutti", "Tutti", "TuttiError", "Unavailable", "connect", "connect_sync"]
