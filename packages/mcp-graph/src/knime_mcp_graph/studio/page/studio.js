/** The studio: one state from the server, shown as graph, forms, text, findings and runs. */
import { Forms } from "./forms.js";
import { GraphView } from "./graph.js";
import { ask, button, choice, el, field, later } from "./parts.js";
import { Runs } from "./runs.js";

const byId = (id) => document.getElementById(id);
const KEYS = [
  ["arrows", "the node above, below, beside"],
  ["g", "go to a node by its name"],
  ["Enter, F2", "its settings; Escape leads back"],
  ["a", "add a node after this one"],
  ["c", "connect this node: arrows and Enter, or g"],
  ["Delete", "remove it; what led to it leads to what followed"],
  ["b", "breakpoint"],
  ["+, -, 0", "zoom, and show everything"],
  ["Ctrl+S, Ctrl+Z, Ctrl+Shift+Z", "save, undo, redo"],
  ["?", "this list"],
];

class Studio {
  constructor() {
    this.state = null;
    this.toolName = null;
    this.forms = new Forms(byId("settings"), this);
    this.runs = new Runs(byId("run"), this);
    this.view = new GraphView(byId("canvas"), {
      select: (id) => (this.view.source ? this.connectTo(id) : this.select(id)),
      open: (id) => this.openNode(id),
      connect: (source, target) => this.connect(source, target),
    });
    this.text = byId("yaml");
    this.isTyping = false;
    this.sends = Promise.resolve();
    this.typedLater = later(400, () => this.sendText());
    this.listen();
  }

  get tool() {
    return this.state?.tools?.find((tool) => tool.name === this.toolName) ?? this.lastTool;
  }

  get node() {
    return this.tool?.nodes.find((node) => node.id === this.view.selected) ?? null;
  }

  stepOf(id) {
    return this.runs.run?.tool === this.toolName ? this.runs.stepOf(id) : null;
  }

  // What the server says

  async refresh() {
    this.take(await ask("state"));
  }

  take(state) {
    if (this.state && state.version < this.state.version) return;
    const whole = JSON.stringify(state);
    if (whole === this.shown) return;
    this.shown = whole;
    const servers = JSON.stringify(this.state?.servers);
    this.state = state;
    if (servers !== JSON.stringify(state.servers)) this.forms.forget();
    const names = state.tools?.map((tool) => tool.name) ?? [];
    if (state.tools && !names.includes(this.toolName)) this.toolName = names[0] ?? null;
    // While the text cannot be read, the last drawing stays.
    if (state.tools) this.lastTool = state.tools.find((tool) => tool.name === this.toolName);
    this.show();
  }

  show() {
    const { state } = this;
    document.title = `${state.isSaved ? "" : "• "}${state.file} – Graph studio`;
    byId("file").textContent = state.file;
    byId("undo").disabled = !state.canUndo;
    byId("redo").disabled = !state.canRedo;
    byId("save").disabled = state.isSaved && state.theirs === null;
    const names = state.tools?.map((tool) => tool.name) ?? [this.toolName];
    byId("tool").replaceChildren(...choice(names, this.toolName).children);
    if (!this.isTyping) {
      if (this.text.value !== state.text) this.putText(state.text);
      this.base = state.version; // of what is typed from now on
    }
    this.view.show(this.tool);
    this.forms.show();
    this.runs.show();
    this.showProblems();
    this.showLines();
    this.showConflict();
    this.mark();
    this.say(state.isSaved ? "Saved" : "Not saved yet");
  }

  say(text, isError = false) {
    byId("status").textContent = text;
    byId("status").classList.toggle("error", isError);
  }

  /** Does what may be refused, and says why it was. */
  async tried(work) {
    try {
      return await work();
    } catch (error) {
      this.say(error.message, true);
      if (error.status === 409) await ask("state").then((state) => this.conflicted(state));
      return undefined;
    }
  }

  /** Changes go one after the other, each on the version that the one before it made. */
  send(name, body = {}) {
    this.sends = this.sends.then(() =>
      this.tried(async () => this.take(await ask(name, { version: this.state.version, ...body }))),
    );
    return this.sends;
  }

  settled() {
    if (this.isTyping) this.sendText();
    return this.sends;
  }

  /** Every change of the document goes to Python, which answers with the document and what is wrong with it. */
  edit(change) {
    return this.send("apply", { change: { nodes: this.tool?.nodesPath, ...change } });
  }

  // Nodes

  select(id) {
    this.view.select(id);
    this.view.focus(id);
    this.forms.show();
    this.mark();
    if (!this.isTyping && this.node) this.showLine(this.node.line, false);
  }

  openNode(id) {
    this.select(id);
    this.tab("settings");
    byId("settings").querySelector("[data-field=id]")?.focus();
  }

  async rename(id, to) {
    if (!to || to === id) return this.forms.show();
    this.view.selected = to;
    await this.edit({ kind: "rename", id, to });
    return this.view.select(this.tool.nodes.some((node) => node.id === to) ? to : id);
  }

  async addTool() {
    const name = el("input", { required: true, spellcheck: "false" });
    if (!(await this.asked("Add tool", [field("Name", name)], "Add"))) return;
    this.toolName = name.value;
    this.view.selected = null;
    await this.edit({ kind: "addTool", name: name.value });
  }

  async renameTool(name, to) {
    if (!to || to === name) return this.forms.show();
    this.toolName = to;
    await this.edit({ kind: "renameTool", name, to });
    return undefined;
  }

  async addServer() {
    const name = el("input", { required: true, spellcheck: "false" });
    const type = choice(["stdio", "streamableHttp", "sse"], "stdio");
    const value = el("input", { required: true, spellcheck: "false" });
    const fields = [field("Name", name), field("Type", type), field("Command, or URL", value)];
    if (!(await this.asked("Add server", fields, "Add"))) return;
    const [command, ...args] = value.value.trim().split(/\s+/);
    const server = type.value === "stdio" ? { command, args } : { type: type.value, url: command };
    await this.edit({ kind: "set", path: ["mcpServers", name.value], value: server });
  }

  async addNode() {
    const name = el("input", { required: true, spellcheck: "false" });
    const type = choice(Object.keys(this.state.kinds), "transform");
    const ids = this.tool.nodes.filter((node) => node.type !== "exit").map((node) => node.id);
    const after = choice(["", ...ids], ids.includes(this.view.selected) ? this.view.selected : "");
    const fields = [field("Name", name), field("Type", type), field("After", after)];
    if (!(await this.asked("Add node", fields, "Add"))) return;
    const node = { id: name.value, type: type.value, ...this.state.kinds[type.value].new };
    if ("server" in node) node.server = this.state.servers[0] ?? "";
    this.view.selected = name.value;
    await this.edit({ kind: "add", node, after: after.value || null });
    this.view.focus(name.value);
  }

  async goTo() {
    const names = this.tool.nodes.map((node) => el("option", { value: node.id }));
    const name = el("input", { list: "names", required: true, spellcheck: "false" });
    const fields = [field("Name", name), el("datalist", { id: "names" }, ...names)];
    if (!(await this.asked(this.view.source ? "Connect with" : "Go to node", fields, "Go"))) return;
    if (!this.tool.nodes.some((node) => node.id === name.value)) this.say(`There is no node '${name.value}'`, true);
    else if (this.view.source) this.connectTo(name.value);
    else this.select(name.value);
  }

  async removeNode() {
    const { node } = this;
    if (!node) return;
    const next = node.settings.next ?? this.tool.nodes[0].id;
    await this.edit({ kind: "remove", id: node.id });
    this.select(this.tool.nodes.some((one) => one.id === next) ? next : this.tool.nodes[0]?.id);
  }

  beginConnecting() {
    if (!this.node || this.node.type === "exit") return;
    this.view.source = this.node.id;
    this.mark();
    this.view.focus(this.node.id);
    this.say(`Connect ${this.node.id}: go to a node and press Enter, or click it. Escape ends.`);
  }

  endConnecting() {
    this.view.source = null;
    this.mark();
  }

  connectTo(target) {
    const { source } = this.view;
    this.endConnecting();
    this.connect(source, target);
  }

  async connect(source, target) {
    const node = this.tool.nodes.find((one) => one.id === source);
    const { ways } = this.state.kinds[node.type] ?? { ways: [{ key: ["next"], words: "next" }] };
    let way = ways[0]?.key;
    if (ways.length > 1) {
      const buttons = ways.map(({ key, words }) => button(words, () => this.closed(key)));
      way = await this.asked(`Connect ${source} with ${target}`, [el("div", { class: "bar" }, ...buttons)]);
    }
    if (way) await this.edit({ kind: "connect", source, way, target });
    this.view.focus(source);
  }

  async toggleBreakpoint() {
    const id = this.view.selected;
    if (!id) return;
    const stops = this.state.breakpoints;
    const nodes = stops.includes(id) ? stops.filter((one) => one !== id) : [...stops, id];
    this.state.breakpoints = nodes;
    this.mark();
    await this.tried(() => ask("breakpoints", { nodes }));
  }

  /** Shows a dialog; gives what closed it, or undefined. */
  asked(title, fields, confirm) {
    const dialog = byId("dialog");
    const ends = [button("Cancel", () => this.closed())];
    if (confirm) ends.unshift(el("button", { class: "first" }, confirm));
    const onsubmit = (event) => {
      event.preventDefault();
      this.closed("yes");
    };
    const form = el("form", { onsubmit }, el("h2", { id: "asked" }, title), ...fields, el("div", { class: "bar" }, ...ends));
    dialog.replaceChildren(form);
    dialog.setAttribute("aria-labelledby", "asked");
    dialog.showModal();
    // Not by the event "close", which comes later, when the next dialog may be open.
    return new Promise((resolve) => (this.answer = resolve));
  }

  closed(value) {
    byId("dialog").close();
    this.answer(value);
  }

  // Text

  putText(text) {
    const { scrollTop, selectionStart, selectionEnd } = this.text;
    this.text.value = text;
    this.text.setSelectionRange(selectionStart, selectionEnd);
    this.text.scrollTop = scrollTop;
  }

  async sendText() {
    const text = this.text.value;
    this.isTyping = false;
    this.sends = this.sends.then(async () => {
      try {
        const state = await ask("apply", { version: this.base, change: { kind: "text", text } });
        this.base = state.version;
        this.take(state);
      } catch (error) {
        this.say(error.message, true);
        const state = await ask("state");
        if (error.status === 409 && state.text !== text) this.showCompared(state.text, text, state);
      }
    });
    return this.sends;
  }

  showLines() {
    const worst = new Map();
    for (const { line, severity } of this.state.problems) {
      if (line && worst.get(line) !== "error") worst.set(line, severity);
    }
    const count = this.text.value.split("\n").length;
    const numbers = Array.from({ length: count }, (_, index) => {
      const severity = worst.get(index + 1);
      return el("span", { class: severity ?? "" }, `${severity ? "● " : ""}${index + 1}\n`);
    });
    byId("lines").replaceChildren(...numbers);
    byId("lines").scrollTop = this.text.scrollTop;
  }

  showLine(line, focus, column = 1) {
    const lines = this.text.value.split("\n");
    const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
    const height = this.text.scrollHeight / Math.max(1, lines.length);
    if (focus) this.tab("text");
    this.text.scrollTop = Math.max(0, (line - 4) * height);
    if (focus) {
      this.text.focus();
      this.text.setSelectionRange(at, at);
    }
  }

  // Findings

  get problemsOf() {
    const found = {};
    for (const problem of this.state.problems) {
      const nodes = this.tool?.nodes ?? [];
      const node = nodes.find(({ path }) => path.every((step, index) => problem.path[index] === step));
      if (node) (found[node.id] ??= []).push(problem);
    }
    return found;
  }

  showProblems() {
    const { problems } = this.state;
    const rows = problems.map((problem) => {
      const place = problem.line ? `${problem.file ?? ""}${problem.line}:${problem.column}` : "";
      const go = () => problem.line && !problem.file && this.showLine(problem.line, true, problem.column);
      const text = `${problem.severity}: ${problem.message}${problem.fix ? `. ${problem.fix}` : ""}`;
      return el("li", { class: problem.severity }, button(`${place} ${text}`, go));
    });
    const count = problems.length === 1 ? "1 finding" : `${problems.length} findings`;
    byId("problems").replaceChildren(el("h2", {}, count), el("ul", {}, ...rows));
  }

  // The file that others change

  showConflict() {
    const { theirs } = this.state;
    if (theirs !== null) this.showCompared(theirs.replaceAll("\r\n", "\n"), this.state.text, this.state);
    else if (!this.isComparing) byId("tab-compare").hidden = true;
  }

  conflicted(state) {
    this.take(state);
    if (state.theirs !== null) this.tab("compare");
  }

  /** Both texts side by side; nothing is lost until somebody chooses. */
  showCompared(theirs, mine, state) {
    const isFile = state.theirs !== null;
    this.isComparing = !isFile;
    const end = () => {
      this.isComparing = false;
      byId("tab-compare").hidden = true;
      this.tab("text");
    };
    const take = async () => {
      if (isFile) await this.send("theirs");
      else this.take(state);
      end();
    };
    const keep = async () => {
      if (isFile) await this.send("save", { overwrite: true });
      else this.take(await ask("apply", { version: state.version, change: { kind: "text", text: mine } }));
      end();
    };
    const mineOnly = new Set(mine.split("\n"));
    const theirsOnly = new Set(theirs.split("\n"));
    const side = (title, text, others) => {
      const lines = text.split("\n").map((line) => el("span", { class: others.has(line) ? "" : "differs" }, `${line}\n`));
      return el("div", {}, el("h3", {}, title), el("pre", { tabindex: "0", "aria-label": title }, ...lines));
    };
    byId("compare").replaceChildren(
      el("h2", {}, isFile ? "The file was changed by somebody else" : "The document changed while you typed"),
      el("div", { class: "bar" }, button("Take theirs", take), button(isFile ? "Keep mine, and save it" : "Keep mine", keep)),
      el("div", { class: "sides" }, side("Theirs", theirs, mineOnly), side("Mine", mine, theirsOnly)),
    );
    byId("tab-compare").hidden = false;
    this.tab("compare");
  }

  // Runs and marks

  ran() {
    this.mark();
    if (!byId("settings").contains(document.activeElement)) this.forms.show();
  }

  mark() {
    if (!this.state) return;
    const marks = { problems: this.problemsOf, stops: this.state.breakpoints, ...this.runs.marks(this.tool) };
    this.view.mark(marks);
    const { selected } = this.view;
    byId("add").disabled = !this.tool;
    byId("break").setAttribute("aria-pressed", String(this.state.breakpoints.includes(selected)));
    for (const id of ["connect", "remove", "break"]) byId(id).disabled = !selected;
  }

  tab(name) {
    for (const one of ["settings", "text", "run", "compare"]) {
      byId(one).hidden = one !== name;
      byId(`tab-${one}`).setAttribute("aria-selected", String(one === name));
      byId(`tab-${one}`).tabIndex = one === name ? 0 : -1;
    }
    if (name === "text") this.showLines();
  }

  // Keys and clicks

  listen() {
    const clicks = {
      undo: () => this.edit({ kind: "undo" }),
      redo: () => this.edit({ kind: "redo" }),
      save: () => this.settled().then(() => this.send("save")),
      ask: () => this.askServers(),
      "add-tool": () => this.addTool(),
      add: () => this.addNode(),
      connect: () => this.beginConnecting(),
      remove: () => this.removeNode(),
      break: () => this.toggleBreakpoint(),
      smaller: () => this.view.zoom(0.8),
      larger: () => this.view.zoom(1.25),
      fit: () => this.view.fit(),
      keys: () => this.showKeys(),
    };
    for (const [id, click] of Object.entries(clicks)) byId(id).addEventListener("click", click);
    byId("tool").addEventListener("change", (event) => {
      this.toolName = event.target.value;
      this.lastTool = this.tool;
      this.view.selected = null;
      this.show();
    });
    for (const name of ["settings", "text", "run", "compare"]) {
      byId(`tab-${name}`).addEventListener("click", () => this.tab(name));
    }
    byId("right").querySelector("[role=tablist]").addEventListener("keydown", (event) => this.tabKey(event));
    byId("dialog").addEventListener("cancel", () => this.closed());
    byId("canvas").addEventListener("keydown", (event) => this.graphKey(event));
    addEventListener("keydown", (event) => this.anyKey(event));
    this.text.addEventListener("input", () => {
      this.isTyping = true;
      this.showLines();
      this.typedLater();
    });
    this.text.addEventListener("scroll", () => (byId("lines").scrollTop = this.text.scrollTop));
    addEventListener("beforeunload", (event) => {
      if (this.state && !this.state.isSaved) event.preventDefault();
    });
    const news = new EventSource("./api/events");
    news.addEventListener("message", ({ data }) => {
      if (data === "run") this.runs.refresh().catch(() => {});
      else this.refresh().catch(() => {});
    });
    news.addEventListener("error", () => this.say("The studio has ended: start the command again.", true));
    this.tab("settings");
  }

  async askServers() {
    this.say("Asking the servers…");
    this.forms.forget();
    await this.send("ask");
  }

  tabKey(event) {
    const tabs = [...event.currentTarget.children].filter((tab) => !tab.hidden);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
    next.click();
    next.focus();
  }

  graphKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const id = this.view.focused ?? this.view.selected;
    const { key } = event;
    const keys = {
      Enter: () => (this.view.source ? this.connectTo(id) : this.openNode(id)),
      " ": () => this.select(id),
      a: () => this.addNode(),
      c: () => this.beginConnecting(),
      b: () => this.toggleBreakpoint(),
      g: () => this.goTo(),
      F2: () => this.openNode(id),
      Delete: () => this.removeNode(),
      Backspace: () => this.removeNode(),
      "+": () => this.view.zoom(1.25),
      "-": () => this.view.zoom(0.8),
      0: () => this.view.fit(),
    };
    if (key.startsWith("Arrow")) {
      const next = this.view.beside(id, key);
      if (this.view.source) this.view.focus(next);
      else this.select(next);
    } else if (key === "Escape" && this.view.source) this.endConnecting();
    else if (key in keys) keys[key]();
    else return;
    event.preventDefault();
  }

  showKeys() {
    const rows = KEYS.map(([keys, words]) => el("tr", {}, el("th", { scope: "row" }, keys), el("td", {}, words)));
    return this.asked("Keys in the graph", [el("table", { class: "keys" }, ...rows)]);
  }

  anyKey(event) {
    if (event.key === "Escape" && byId("settings").contains(event.target)) {
      event.target.blur(); // what was typed counts
      this.view.focus(this.view.selected);
    }
    const isText = event.target.matches("textarea, input");
    if (event.key === "?" && !isText) this.showKeys();
    if (!(event.ctrlKey || event.metaKey)) return;
    const key = event.key.toLowerCase();
    if (key === "s") byId("save").click();
    else if (isText) return;
    else if (key === "z") byId(event.shiftKey ? "redo" : "undo").click();
    else if (key === "y") byId("redo").click();
    else return;
    event.preventDefault();
  }
}

const studio = new Studio();
await studio.refresh();
await studio.runs.refresh();
