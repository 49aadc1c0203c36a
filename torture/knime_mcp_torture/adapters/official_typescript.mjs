// The official TypeScript SDK. It is run in a folder whose node_modules has it.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import readline from "node:readline";

const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");
const { StdioClientTransport } = await load("client/stdio.js");
const failed = (error) => ({ error: `${error?.name}: ${error?.message}`.slice(0, 500) });
process.on("uncaughtException", () => {});
process.on("unhandledRejection", () => {});

async function run(task, answer) {
  const client = new Client({ name: "torture", version: "1" });
  const transport = task.url
    ? new StreamableHTTPClientTransport(new URL(task.url))
    : new StdioClientTransport({ command: task.command[0], args: task.command.slice(1), stderr: "ignore" });
  const clock = { timeout: task.timeout * 1000, maxTotalTimeout: task.timeout * 1000 };
  try {
    await client.connect(transport, clock);
    answer.connect = { ok: true };
  } catch (error) {
    answer.connect = failed(error);
    await client.close();
    return;
  }
  try {
    answer.tools = (await client.listTools({}, clock)).tools.map((tool) => tool.name);
  } catch (error) {
    answer.tools_error = failed(error).error;
  }
  for (const name of task.calls) {
    try {
      const result = await client.callTool({ name, arguments: { text: "hi" } }, undefined, clock);
      const texts = result.content.filter((block) => block.type === "text").map((block) => block.text);
      answer.calls.push({ text: texts.join(""), is_error: result.isError === true });
    } catch (error) {
      answer.calls.push(failed(error));
    }
  }
  await client.close();
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const answer = { connect: {}, tools: null, calls: [] };
  try {
    await run(JSON.parse(line), answer);
  } catch (error) {
    answer.end = failed(error).error;
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
process.exit(0);
