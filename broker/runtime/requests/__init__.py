"""From a frame to a handler, and what every handler needs: the request, deadlines, waits, retries.

Uses `broker.wire`, `broker.core` and the ports. Frames come in from `broker.net` by the dispatcher, with the context of
their connection (listener, principal), and pass the chain (measure, authorise, throttle) before their handler;
responses leave by a request's slot. Source: kafka.network.RequestChannel, kafka.server.KafkaApis.
"""
