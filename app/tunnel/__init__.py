"""The way in from the internet: a tunnel as a supervised child, and whether it can be reached through it.

Knows no alert, no order and no listener; learns only a port, an address and what a program prints. Nothing a
tunnel does may hold the loop, and no secret is in an argument, a log line or an error of this room.
"""

from app.tunnel.base import CannotStart, Ending, Kind, Launch, Look
from app.tunnel.clients import client_address
from app.tunnel.kinds import make_kind
from app.tunnel.memory import TunnelMemory
from app.tunnel.pace import Pace
from app.tunnel.probe import Knock, PublicProbe
from app.tunnel.supervisor import Supervisor, TunnelFacts

__all__ = [
    "CannotStart",
    "Ending",
    "Kind",
    "Knock",
    "Launch",
    "Look",
    "Pace",
    "PublicProbe",
    "Supervisor",
    "TunnelFacts",
    "TunnelMemory",
    "client_address",
    "make_kind",
]
