"""The one way of a call: plan, gate, check, send, record, rows."""
