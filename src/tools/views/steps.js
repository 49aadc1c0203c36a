// What there is of a step when it is unfolded. Texts become text nodes only, never HTML.
"use strict";
const tools = {};
const PREVIEW = 240;
const MOST_ROWS = 20;
const MOST_COLUMNS = 8;
const MOST_CELLS = 4e6; // of the comparison of lines

function element(name, attributes, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined && value !== "") made.setAttribute(key, value);
  made.append(...content.filter((each) => each !== undefined && each !== ""));
  return made;
}

const seconds = (value) => (value === undefined ? "" : value < 10 ? `${value.toFixed(3)} s` : `${value.toFixed(1)} s`);
const preview = (text) => (text || "").slice(0, PREVIEW).replace(/\s+/g, " ");

// JSON, indented without reading its numbers: large ones would become others.
function indented(text) {
  try {
    if (!/^\s*[[{]/.test(text)) throw 0;
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  return text.replace(/"(?:[^"\\]|\\.)*"|\s+|[[{]\s*[\]}]|[[\]{},:]/g, (token) => {
    if (/^\s/.test(token)) return "";
    if (/^[[{]\s*[\]}]$/.test(token)) return token[0] + token.at(-1);
    if (token === "{" || token === "[") return depth++, token + line();
    if (token === "}" || token === "]") return depth--, line() + token;
    return token === "," ? "," + line() : token === ":" ? ": " : token;
  });
}

// The objects of a list, or of the only list in an object: they are shown as a table.
function recordsIn(text) {
  if (!text || /\d{16}/.test(text)) return [];
  try {
    const value = JSON.parse(text);
    const lists = Array.isArray(value) ? [value] : Object.values(value ?? {}).filter(Array.isArray);
    const [list] = lists;
    const are = lists.length === 1 && list.length > 1 && list.every((each) => each && typeof each === "object" && !Array.isArray(each));
    return are ? list : [];
  } catch {
    return [];
  }
}

function table(records) {
  const columns = [...new Set(records.slice(0, MOST_ROWS).flatMap(Object.keys))].slice(0, MOST_COLUMNS);
  const shown = (value) => (value === undefined || value === null ? "" : preview(typeof value === "string" ? value : JSON.stringify(value)));
  const row = (kind, cells, more) => element("tr", {}, ...cells.map((cell) => element(kind, more, cell)));
  const rows = records.slice(0, MOST_ROWS).map((record) => row("td", columns.map((name) => shown(record[name])), {}));
  const head = element("thead", {}, row("th", columns, { scope: "col" }));
  const more = records.length > MOST_ROWS ? `… and ${records.length - MOST_ROWS} more` : undefined;
  return element("div", { class: "scroll", tabindex: 0 }, element("table", {}, head, element("tbody", {}, ...rows)), more);
}

// Lines on record and now, side by side: by their longest common sequence, or whole if they are too many.
function sides(before, now) {
  const [old, young] = [indented(before), indented(now)].map((text) => (text ? text.split("\n") : []));
  let start = 0;
  while (start < old.length && start < young.length && old[start] === young[start]) start++;
  let end = 0;
  while (end < old.length - start && end < young.length - start && old.at(-1 - end) === young.at(-1 - end)) end++;
  const a = old.slice(start, old.length - end), b = young.slice(start, young.length - end);
  const pairs = [];
  if (a.length * b.length <= MOST_CELLS) {
    const wide = b.length + 1, length = new Uint32Array((a.length + 1) * wide);
    for (let i = a.length - 1; i >= 0; i--)
      for (let j = b.length - 1; j >= 0; j--)
        length[i * wide + j] = a[i] === b[j] ? length[(i + 1) * wide + j + 1] + 1 : Math.max(length[(i + 1) * wide + j], length[i * wide + j + 1]);
    for (let i = 0, j = 0; i < a.length || j < b.length; )
      if (i < a.length && j < b.length && a[i] === b[j]) pairs.push([a[i++], b[j++]]);
      else if (j === b.length || (i < a.length && length[(i + 1) * wide + j] >= length[i * wide + j + 1])) pairs.push([a[i++]]);
      else pairs.push([undefined, b[j++]]);
  } else for (let i = 0; i < Math.max(a.length, b.length); i++) pairs.push([a[i], b[i]]);
  const around = (lines) => lines.map((line) => [line, line]);
  const all = [...around(old.slice(Math.max(0, start - 3), start)), ...pairs, ...around(old.slice(old.length - end, old.length - end + 3))];
  const cell = (line, other, kind) => element("code", { class: line === undefined || line === other ? "" : kind }, line ?? "");
  const heads = ["On record", "Now"].map((text) => element("b", {}, text));
  return element("div", { class: "sides" }, ...heads, ...all.flatMap(([one, other]) => [cell(one, other, "bad"), cell(other, one, "good")]));
}

function detail(step) {
  const heading = (text) => element("h2", {}, text);
  const part = (name, text) => (text ? [heading(name), element("pre", { tabindex: 0 }, indented(text))] : []);
  const found = recordsIn(step.structured || step.came);
  const tool = tools[step.tool];
  const isSaid = step.kind !== "call";
  return [
    ...(step.altered ? [element("div", { class: "note bad" }, step.altered)] : []),
    ...(step.reason ? [element("p", { class: "text" }, step.reason)] : []),
    ...(step.differences || []).flatMap(([name, old, now]) => [heading(name), sides(old, now)]),
    ...(step.error ? [element("div", { class: "note bad" }, step.error)] : []),
    ...(isSaid && step.sent ? [element("div", { class: "said-text", tabindex: 0 }, step.sent)] : part("Arguments", step.sent)),
    ...(step.pictures || []).map(([source, description]) => element("img", { src: source, alt: description })),
    ...(found.length ? [table(found)] : []),
    ...part(isSaid ? "Settings" : step.error ? "The server's answer" : "Result", step.came),
    ...part("Structured result", step.structured),
    ...(step.facts ? [element("dl", {}, ...step.facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]))] : []),
    ...(tool ? [element("details", {}, element("summary", {}, `The tool: ${tool.kind}`), element("p", { class: "text" }, tool.description), ...part("Parameter schema", tool.schema), ...part("Output schema", tool.output))] : []),
  ];
}
