"""Who is told what: on this screen, and by Apprise to Telegram, Discord, mail and others.

Never in an order's path: it is handed what there is to tell, sends on threads of its own, and whatever
becomes of that changes no order. It knows no engine, no broker and no window.
"""

from app.notify.courier import Courier, Show
from app.notify.item import Event, Item, Message
from app.notify.notifier import Looked, Notifier, Pace
from app.notify.outbox import Outbox

__all__ = [
    "Courier",
    "Event",
    "Item",
    "Looked",
    "Message",
    "Notifier",
    "Outbox",
    "Pace",
    "Show",
]
