"""From a frame to a handler, and what every handler needs: the request, deadlines, waits, retries.

Uses `broker.wire`, `broker.core` and the ports. Frames come in from `broker.net` by the dispatcher; answers leave by
a request's slot.
"""
