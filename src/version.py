"""The version of the extension, the client and the distribution: one number for all."""

VERSION = "0.1.0"
