// The runs of a folder, and forms for a server's tools. Texts become text nodes only, never HTML.
"use strict";
const LOOK_EVERY = 2000; // milliseconds
const MOODS = { complete: "good", "goes on": "neutral", canceled: "warning" };
const [runs, ask, server, toolsShown, tried] = ["runs", "ask", "server", "tools", "tried"].map((id) => document.getElementById(id));

async function asked(what, body) {
  const answer = await fetch(what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

const bad = (error) => element("div", { class: "note bad" }, error.message);
const button = (text, action) => {
  const made = element("button", { type: "button" }, text);
  made.addEventListener("click", action);
  return made;
};

let lastRuns = "";
async function look() {
  if (!document.hidden)
    try {
      const found = await asked("runs", {});
      document.body.classList.remove("lost");
      if (JSON.stringify(found) !== lastRuns) showRuns(found);
      lastRuns = JSON.stringify(found);
    } catch {
      document.body.classList.add("lost");
    }
  setTimeout(look, LOOK_EVERY);
}

function showRuns(found) {
  const cells = (run) => [
    element("a", { href: run.link }, run.name),
    element("span", { class: `badge ${MOODS[run.outcome] ?? "bad"}` }, run.outcome),
    run.calls === null ? "" : run.calls.toLocaleString("en"),
    preview(run.about),
    run.at.replace("T", " ").slice(0, 19),
  ];
  const row = (kind, each, more) => element("tr", {}, ...each.map((cell) => element(kind, more, cell)));
  const head = element("thead", {}, row("th", ["Run", "Ended", "Calls", "About", "Begun (UTC)"], { scope: "col" }));
  const body = element("tbody", {}, ...found.map((run) => row("td", cells(run), {})));
  const none = "There are no journals here yet: --audit RUN.jsonl makes one.";
  runs.replaceChildren(found.length ? element("div", { class: "scroll", tabindex: 0 }, element("table", {}, head, body)) : none);
}

ask.addEventListener("submit", async (event) => {
  event.preventDefault();
  toolsShown.replaceChildren("Asking …");
  tried.replaceChildren();
  const of = server.value; // what stands in the field later is another server
  try {
    const found = await asked("tools", { server: of });
    toolsShown.replaceChildren(...(found.length ? found.map((each) => tool(of, each)) : ["The server has no tools."]));
  } catch (error) {
    toolsShown.replaceChildren(bad(error));
  }
});

function tool(of, each) {
  const summary = element("summary", {}, element("b", {}, each.name), " ", element("span", { class: "soft" }, each.signature));
  const made = element("details", {}, summary, element("p", { class: "text" }, each.description));
  made.addEventListener("toggle", () => made.children.length > 2 || made.append(form(of, each)), { once: true });
  return made;
}

// A field for each parameter; what is not a plain value is written as JSON.
function field(name, declared, isRequired) {
  // What may also be null is the other thing, or left out.
  const others = (declared.anyOf ?? declared.oneOf ?? []).filter((each) => each?.type !== "null");
  const schema = others.length === 1 ? { ...declared, ...others[0] } : declared;
  const type = Array.isArray(schema.type) ? schema.type.find((each) => each !== "null") : schema.type;
  const choices = schema.enum ?? (type === "boolean" ? [true, false] : undefined);
  const isPlain = ["string", "number", "integer", "boolean"].includes(type) || choices?.every((each) => typeof each === "string");
  let control;
  if (choices) {
    const texts = choices.map((each) => (isPlain && typeof each === "string" ? each : JSON.stringify(each)));
    control = element("select", {}, element("option", { value: "" }, ""), ...texts.map((text) => element("option", {}, text)));
  } else if (type === "number" || type === "integer") control = element("input", { inputmode: "decimal" });
  else control = element("textarea", { rows: isPlain ? 1 : 3, placeholder: isPlain ? "" : "JSON" });
  if (schema.default !== undefined && schema.default !== null) control.placeholder = typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default);
  control.id = `field-${crypto.randomUUID()}`;
  control.required = isRequired && type !== "string";
  const label = element("label", { for: control.id }, name, isRequired ? " *" : "", type ? element("span", { class: "soft" }, ` ${type}`) : "");
  const made = element("div", { class: "field" }, label, control, schema.description ? element("p", { class: "soft" }, schema.description) : "");
  // A required text may be empty; of others, what is empty is not sent.
  const pair = () => (control.value === "" && !(isRequired && type === "string") ? [] : [`${name}${isPlain ? "=" : ":="}${control.value}`]);
  return [made, pair];
}

function form(of, each) {
  const schema = JSON.parse(each.schema);
  const fields = Object.entries(schema.properties ?? {}).map(([name, inner]) =>
    field(name, inner && typeof inner === "object" ? inner : {}, (schema.required ?? []).includes(name)));
  const send = element("button", {}, "Call"), came = element("div", { role: "status" });
  const made = element("form", {}, ...fields.map(([shown]) => shown), send);
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    came.replaceChildren("Calling …");
    try {
      const body = { server: of, tool: each.name, arguments: fields.flatMap(([, pair]) => pair()) };
      const found = await asked("call", body);
      Object.assign(tools, found.tools);
      came.replaceChildren(...outcome(found.steps[0]), ...copies(found.copies));
    } catch (error) {
      came.replaceChildren(bad(error));
    }
    send.disabled = false;
  });
  return element("div", {}, made, came);
}

function outcome(step) {
  const head = element("p", {}, element("span", { class: `badge ${step.mood}` }, step.status), " ", seconds(step.took));
  return [head, ...detail({ ...step, tool: undefined })];
}

function copies(texts) {
  return Object.entries(texts).map(([name, text]) => {
    const copy = button("Copy", async () => {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    });
    return element("details", {}, element("summary", {}, `As ${name === "Python" ? name : name.toLowerCase()}`), element("pre", { tabindex: 0 }, text), copy);
  });
}

look();
