"""What the HTTP servers share: sockets, the end by a signal, requests that never become whole."""
