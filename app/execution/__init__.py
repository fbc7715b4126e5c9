"""From PENDING to the broker and back: lanes, the gate, replies, the resolver, the reconciler.

No byte goes to a broker before its SUBMITTING row is on disk, and no order whose fate is unknown is sent
again. Nothing here waits inside the door's path.
"""
