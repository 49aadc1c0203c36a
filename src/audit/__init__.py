"""The record of a call, the journal, its chain and signatures, secrets, tables."""
