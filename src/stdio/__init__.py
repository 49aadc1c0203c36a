"""What servers over standard input and output share: pipes without threads, sessions without the SDK."""
