"""The studio: a local page on which people see, change and run the graphs of a document."""
