/** Elements, requests and values. Every text of a document or server is set as text, never as markup. */

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = element.shownValue = value;
    else if (typeof value === "boolean") element[name] = value;
    else if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export async function ask(name, body = {}) {
  const answer = await fetch(`./api/${name}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const value = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.error), { status: answer.status });
  return value;
}

export const button = (text, onclick, attributes = {}) =>
  el("button", { type: "button", onclick, ...attributes }, text);

/** A choice among texts; an empty one is "none". */
export function choice(values, chosen, attributes = {}) {
  const known = values.includes(chosen) || !chosen ? values : [chosen, ...values];
  const options = known.map((value) => el("option", { value, selected: value === chosen }, value || "–"));
  return el("select", attributes, ...options);
}

let numbers = 0;

/** A control below its label; `place` is the path of its value in the document. */
export function field(label, control, note, place) {
  control.id ||= `field-${(numbers += 1)}`;
  const notes = note ? [el("span", { class: "note" }, note)] : [];
  const about = place && JSON.stringify(place);
  return el("div", { class: "field", "data-place": about }, el("label", { for: control.id }, label), control, ...notes);
}

export const json = (value) => (value === undefined ? "" : JSON.stringify(value));
export const pretty = (value) => (value === undefined ? "nothing" : JSON.stringify(value, null, 2));

/** What somebody typed: JSON if it is some, otherwise the text itself. */
export function typed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The value of a form's field for a schema; undefined if it was left empty. */
export function valueFor(schema, text) {
  if (text === "") return undefined;
  return schema?.type === "string" ? text : typed(text);
}

/** The text of a form's field that has a value. */
export function textOf(schema, value) {
  if (value === undefined) return "";
  return typeof value === "string" && (schema?.type === "string" || typed(value) === value) ? value : json(value);
}

export function later(milliseconds, call) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...values), milliseconds);
  };
}
