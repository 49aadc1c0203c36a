/** The settings of a node or tool as a form; each field is one change of the document. */
import { ask, button, choice, el, field, json, later, textOf, typed, valueFor } from "./parts.js";

export class Forms {
  /** `studio` gives the state, and takes changes. */
  constructor(host, studio) {
    this.host = host;
    this.studio = studio;
    this.listed = new Map();
    host.addEventListener("change", ({ target }) => (target.shownValue = target.value), true);
  }

  show() {
    const { tool, node } = this.studio;
    const at = document.activeElement;
    const isWriting = this.host.contains(at) && at.shownValue !== undefined && at.value !== at.shownValue;
    if (isWriting && node?.id === this.shownNode) return; // it is shown once this is done
    this.shownNode = node?.id;
    const place = this.host.contains(at) ? [...this.host.querySelectorAll("input,textarea,select,button")].indexOf(at) : -1;
    if (!tool) this.host.replaceChildren(el("p", {}, "The document has no tool that can be read."));
    else this.host.replaceChildren(...(node ? this.node(tool, node) : this.tool(tool)));
    if (tool) this.tell(node ? [node.path] : [tool.path, ["mcpServers"]], node ? [] : [tool.nodesPath]);
    if (place >= 0) this.host.querySelectorAll("input,textarea,select,button")[place]?.focus();
  }

  /** Puts each finding at the field of the key that it is about, others below the heading. */
  tell(paths, without) {
    const fields = [...this.host.querySelectorAll("[data-place]")].map((one) => [JSON.parse(one.dataset.place), one]);
    fields.sort(([one], [other]) => other.length - one.length);
    for (const { path, severity, message, fix } of this.studio.state.problems) {
      const isHere = paths.some((one) => isBelow(path, one)) && !without.some((one) => isBelow(path, one));
      if (!isHere) continue;
      const note = el("p", { class: `problem ${severity}` }, `${message}${fix ? `. ${fix}` : ""}`);
      const [, at] = fields.find(([place]) => isBelow(path, place)) ?? [];
      if (at) at.append(note);
      else this.host.querySelector("h2").after(note);
      at?.querySelector("input,textarea,select")?.setAttribute("aria-invalid", "true");
    }
  }

  set(path, value) {
    return this.studio.edit({ kind: "set", path, value });
  }

  text(label, value, change, attributes = {}, note, place) {
    const onchange = (event) => change(event.target.value);
    return field(label, el("input", { value: value ?? "", onchange, spellcheck: "false", ...attributes }), note, place);
  }

  lines(label, value, change, note, place) {
    const rows = Math.min(14, Math.max(2, value.split("\n").length));
    const onchange = (event) => change(event.target.value);
    return field(label, el("textarea", { value, rows, onchange, spellcheck: "false" }), note, place);
  }

  json(label, value, path) {
    const change = (text) => this.set(path, text.trim() === "" ? null : typed(text));
    return this.lines(label, value === undefined ? "" : JSON.stringify(value, null, 2), change, undefined, path);
  }

  // A tool

  tool(tool) {
    const { settings, path } = tool;
    return [
      el("h2", {}, `Tool ${tool.name}`),
      this.text("Name", settings.name, (text) => this.studio.renameTool(tool.name, text)),
      this.lines("Description", String(settings.description ?? ""), (text) => this.set([...path, "description"], text), undefined, [...path, "description"]),
      this.json("Arguments (inputSchema)", settings.inputSchema, [...path, "inputSchema"]),
      this.json("Result (outputSchema)", settings.outputSchema, [...path, "outputSchema"]),
      el("p", { class: "note" }, "Choose a node in the graph to see its settings."),
      ...this.servers(),
    ];
  }

  /** The servers that the document itself names; each field is one of its keys. */
  servers() {
    const own = Object.entries(this.studio.state.ownServers);
    return [
      el("h2", {}, "Servers"),
      ...own.map(([name, settings]) => this.server(name, settings ?? {})),
      button("Add server", () => this.studio.addServer()),
    ];
  }

  server(name, settings) {
    const path = ["mcpServers", name];
    const text = (label, key) =>
      this.text(label, settings[key], (value) => this.set([...path, key], value === "" ? null : value));
    const args = (value) => this.set([...path, "args"], value.split("\n").filter((line) => line !== ""));
    const parts = settings.url === undefined
      ? [text("Command", "command"), this.lines("Arguments, one a line", (settings.args ?? []).join("\n"), args), text("Folder", "cwd")]
      : [text("URL", "url")];
    return el("fieldset", {}, el("legend", {}, name), ...parts);
  }

  // A node

  node(tool, node) {
    const { type, path } = node;
    const kinds = this.studio.state.kinds;
    const rename = (to) => this.studio.rename(node.id, to);
    const parts = [
      el("h2", {}, node.id),
      el("p", { class: "note" }, `${type || "no type"}, line ${node.line}`),
      this.text("Name", node.id, rename, { "data-field": "id" }),
    ];
    if (!(type in kinds)) parts.push(this.select("Type", Object.keys(kinds), type, [...path, "type"]));
    const fields = kinds[type]?.fields ?? [];
    const isShort = ({ form }) => form === "setting";
    for (const one of fields.filter((each) => !isShort(each))) parts.push(...this.forms[one.form](one, node));
    parts.push(this.ways(tool, node));
    for (const one of fields.filter(isShort)) parts.push(this.setting(one, node));
    return parts;
  }

  /** How each form of a key is shown. */
  get forms() {
    return {
      expression: (one, node) => this.expression(one, node),
      arguments: (_one, node) => this.args(node, this.called(node)?.inputSchema),
      rules: (_one, node) => this.conditions(node),
      server: (one, node) => [this.select(one.label, this.studio.state.servers, node.settings.server, [...node.path, "server"])],
      serverTool: (one, node) => this.serverTool(one, node),
      tool: (one, node) => {
        const names = this.studio.state.tools.map(({ name }) => name);
        return [this.select(one.label, names, node.settings.tool, [...node.path, "tool"])];
      },
    };
  }

  setting({ key, label }, node) {
    const place = [...node.path, key];
    const change = (text) => this.set(place, text === "" ? null : typed(text));
    return this.text(label, textOf({}, node.settings[key]), change, {}, undefined, place);
  }

  select(label, values, chosen, path) {
    const onchange = (event) => this.set(path, event.target.value);
    return field(label, choice(["", ...values], chosen ?? "", { onchange }), undefined, path);
  }

  expression({ key, label }, node) {
    const written = node.settings[key];
    const isMarked = key === "transform" || (typeof written === "object" && written);
    const path = [...node.path, key, ...(isMarked ? ["expr"] : [])];
    const value = isMarked ? written?.expr : written;
    const preview = el("pre", { class: "preview", "aria-label": `Value of ${label}` });
    const text = typeof value === "string" ? value : json(value);
    const line = this.lines(label, text, (now) => this.set(path, now), "JSONata", [...node.path, key]);
    this.previewed(line.querySelector("textarea"), preview, (now) => ({ expression: now }));
    return [line, preview];
  }

  /** Shows below a control what its text gives on the values of the last run. */
  previewed(control, preview, asked) {
    const at = this.studio.stepOf(this.studio.node.id);
    const look = async () => {
      if (at === null) {
        preview.textContent = "Run the tool to see what it gives.";
        return;
      }
      try {
        const answer = await ask("evaluate", { ...asked(control.value), at });
        preview.textContent = "value" in answer ? JSON.stringify(answer.value, null, 1) : (answer.error ?? "nothing");
      } catch (error) {
        preview.textContent = error.message;
      }
    };
    control.addEventListener("input", later(250, look));
    look();
  }

  conditions(node) {
    const { settings, path } = node;
    const way = this.studio.state.dialect === "target" ? "target" : "next";
    return (settings.conditions ?? []).flatMap((condition, index) => {
      const place = [...path, "conditions", index];
      const preview = el("pre", { class: "preview", "aria-label": `Value of rule ${index + 1}` });
      const rule = this.lines(
        `Rule ${index + 1} → ${condition?.[way] ?? "?"}`,
        json(condition?.rule),
        (text) => this.set([...place, "rule"], text.trim() === "" ? null : typed(text)),
        "JSON Logic",
        place,
      );
      const standard = settings.jsonLogic === "standard";
      this.previewed(rule.querySelector("textarea"), preview, (text) => ({ rule: typed(text), standard }));
      return [rule, preview];
    });
  }

  ways(tool, node) {
    const ids = tool.nodes.map((one) => one.id);
    const rows = tool.ways
      .filter((way) => way.source === node.id)
      .map((way) => {
        const connect = (target) => this.studio.edit({ kind: "connect", source: node.id, way: way.key, target });
        const name = way.label || "next";
        const select = choice(ids, way.target, { onchange: (event) => connect(event.target.value) });
        const gone = button("Disconnect", () => connect(""), { "aria-label": `Disconnect ${name} ${way.target}` });
        const about = field(`Way: ${name}`, select, undefined, [...node.path, ...way.key]);
        return el("div", { class: "row" }, about, gone);
      });
    return el("div", { role: "group", "aria-label": "Ways" }, ...rows);
  }

  // Calls of tools

  /** What is known of the tool that a node calls. */
  called({ type, settings }) {
    if (type === "tool") return this.studio.state.tools.find(({ name }) => name === settings.tool)?.settings;
    return this.toolsOf(settings.server).list?.find(({ name }) => name === settings.tool);
  }

  serverTool({ label }, node) {
    const { settings, path } = node;
    const { list, note } = this.toolsOf(settings.server);
    const place = [...path, "tool"];
    const { description } = this.called(node) ?? {};
    return [
      list?.length
        ? this.select(label, list.map(({ name }) => name), settings.tool, place)
        : this.text(label, settings.tool, (text) => this.set(place, text), {}, undefined, place),
      note ? el("p", { class: "note", role: "status" }, note) : null,
      description ? el("p", { class: "note" }, description) : null,
    ];
  }

  toolsOf(server) {
    if (!server) return {};
    if (!this.listed.has(server)) {
      this.listed.set(server, { note: `Asking ${server} for its tools…` });
      ask("tools", { server })
        .then((list) => this.listed.set(server, { list }))
        .catch((error) => this.listed.set(server, { note: error.message }))
        .finally(() => this.show());
    }
    return this.listed.get(server);
  }

  /** Forget what servers said, as their settings may have changed. */
  forget() {
    this.listed.clear();
  }

  args(node, schema) {
    const args = node.settings.args ?? {};
    const properties = schema?.properties ?? {};
    const names = [...new Set([...Object.keys(properties), ...Object.keys(args)])];
    const place = [...node.path, "args"];
    const rows = names.map((name) => this.arg(name, properties[name], args[name], [...place, name], schema));
    const added = (event) => event.target.value && this.set([...place, event.target.value], "");
    const more = field("Further argument", el("input", { onchange: added, placeholder: "name" }));
    return [el("div", { role: "group", "aria-label": "Arguments" }, ...rows, more)];
  }

  arg(name, schema, value, path, whole) {
    const isTarget = this.studio.state.dialect === "target";
    const marked = typeof value === "object" && value && Object.keys(value).join() === "expr";
    const isExpression = isTarget ? typeof value === "string" && value.startsWith("$") : marked;
    const text = isExpression ? (isTarget ? value : value.expr) : textOf(schema, value);
    const mark = el("input", { type: "checkbox", checked: isExpression });
    const rows = Math.min(6, text.split("\n").length);
    const control = schema?.enum && !isExpression
      ? choice(["", ...schema.enum.map((one) => textOf(schema, one))], text)
      : el("textarea", { value: text, rows, spellcheck: "false" });
    const change = () => {
      const now = control.value;
      if (now === "") this.set(path, null);
      else if (!mark.checked) this.set(path, valueFor(schema, now));
      else this.set(path, isTarget ? (now.startsWith("$") ? now : `$.${now}`) : { expr: now });
    };
    control.addEventListener("change", change);
    mark.addEventListener("change", () => control.value && change());
    const required = whole?.required?.includes(name) ? " (required)" : "";
    const kind = schema?.type ? `: ${schema.type}` : "";
    const parts = [field(`${name}${kind}${required}`, control, schema?.description, path)];
    parts.push(el("label", { class: "mark" }, mark, ` ${name} is an expression`));
    if (isExpression) {
      const preview = el("pre", { class: "preview", "aria-label": `Value of ${name}` });
      this.previewed(control, preview, (now) => ({ expression: now }));
      parts.push(preview);
    }
    return el("div", { class: "arg" }, ...parts);
  }
}

const isBelow = (path, place) => place.every((step, index) => path[index] === step);
