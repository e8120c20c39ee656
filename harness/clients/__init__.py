"""The harness's own clients: one operation is one request, with no retry inside."""
