"""Reads the page of a run as its script does."""

import json
import re
from dataclasses import dataclass, field

DATA = re.compile(r'<script type="application/json" id="steps-data">(.*?)</script>', re.DOTALL)


@dataclass
class RunPage:
    text: str
    steps: list = field(init=False)
    tools: dict = field(init=False)

    def __post_init__(self):
        (data,) = DATA.findall(self.text)
        read = json.loads(data)
        self.steps, self.tools = read["steps"], read["tools"]

    @property
    def calls(self):
        return [step for step in self.steps if step["kind"] == "call"]

    @property
    def html(self):
        """The page without its data and script: what is there before the script runs."""
        return re.sub(r"<(script|noscript)\b.*?</\1>", "", self.text, flags=re.DOTALL)
