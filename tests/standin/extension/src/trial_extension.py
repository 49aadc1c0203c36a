"""A small extension that uses what this project's nodes use, to try both hosts with."""

from trial_ports import Context, Listen, RunTool, Speak
from trial_scripts import Script
from trial_settings import Settings, Versions
from trial_tables import Read, Tables

__all__ = ["Context", "Listen", "Read", "RunTool", "Script", "Settings", "Speak", "Tables", "Versions"]
