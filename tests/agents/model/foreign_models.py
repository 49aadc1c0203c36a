"""The documents that KNIME's AI extension writes for its chat models, made by its own classes.

Run under KNIME's Python with KNIME_PYTHON_ROOT and KNIME_LLM_ROOT; prints a JSON object.
A separate process, as KNIME's sources load only one extension per process.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

KNIME_YML = """
name: llm
group_id: org.knime.python
extension_module: src/only_models
version: '0.1.0'
author: x
vendor: x
description: x
license_file: x
"""


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from tests.support import real_knime as rig

    source = str(Path(os.environ["KNIME_LLM_ROOT"]) / "src")
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder, "src", "only_models.py")
        module.parent.mkdir()
        imports = "import models.openai, models.azure, models.knime"
        module.write_text(f"import sys\nsys.path.insert(0, {source!r})\n{imports}\n", encoding="utf-8")
        Path(folder, "knime.yml").write_text(KNIME_YML, encoding="utf-8")
        rig.bootstrap()
        rig.load_extension(str(Path(folder, "knime.yml")))
        print("\n" + json.dumps(documents(sys.argv[1])))


def documents(url: str) -> dict[str, object]:
    """A document of each kind of model, at a URL."""
    import knime.extension as knext
    from knime.api.schema import HubAuthenticationPortObjectSpec
    from models import azure, openai
    from models.knime import _chat as hub

    login = openai.OpenAIAuthenticationPortObjectSpec("openai", f"{url}/v1", None, {"X-Team": "blue"})
    azure_login = azure.AzureOpenAIAuthenticationPortObjectSpec("openai", url, "2024-06-01", "azure")
    ported = openai.OpenAIAuthenticationPortObjectSpec("", f"{url}/v1", knext.CredentialPortObjectSpec("xml"))
    made = {
        "openai": (
            openai.openai_chat_port_type,
            openai.OpenAIChatModelPortObjectSpec(login, "gpt-4o", 0.2, 0.9, 200, 3, 1),
        ),
        "openai_reasoning": (
            openai.openai_chat_port_type,
            openai.OpenAIChatModelPortObjectSpec(login, "o3-mini", 0.2, 0.9, 200, 3, 1),
        ),
        "openai_port": (
            openai.openai_chat_port_type,
            openai.OpenAIChatModelPortObjectSpec(ported, "gpt-4o", 0.2, 0.9, 200, 3, 1),
        ),
        "azure": (
            azure.azure_openai_chat_port_type,
            azure.AzureOpenAIChatModelPortObjectSpec(azure_login, "mine", 0.2, 0.9, 200, 3, 1, False),
        ),
        "azure_reasoning": (
            azure.azure_openai_chat_port_type,
            azure.AzureOpenAIChatModelPortObjectSpec(azure_login, "mine", 0.2, 0.9, 200, 3, 1, True),
        ),
        "hub": (
            hub.knime_chat_model_port_type,
            hub.KnimeHubChatModelPortObjectSpec(
                HubAuthenticationPortObjectSpec("xml", f"{url}/some/hub"), "team:model", 200, 0.2, 0.9, 1
            ),
        ),
    }
    return {name: {"id": kind.id, "data": spec.serialize()} for name, (kind, spec) in made.items()}


if __name__ == "__main__":
    main()
