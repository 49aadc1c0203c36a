// The steps of a run: lists, groups, filters and unfolds them, and adds those that a run still makes.
"use strict";
const DRAWN_AT_ONCE = 200;
const NEWS_EVERY = 1000; // milliseconds
const TEXTS = ["name", "row", "status", "sent", "came", "structured", "error", "reason", "altered"];
const data = document.getElementById("steps-data");
const { steps, tools: named } = JSON.parse(data.textContent);
Object.assign(tools, named);
data.remove(); // the text is as large as the steps

const list = document.getElementById("steps"), end = document.getElementById("end");
const [search, tool, status, order, shown] = ["search", "tool", "status", "order", "shown"].map((id) => document.getElementById(id));
let begin, whole; // of the time that the steps took

function measure() {
  begin = steps.reduce((least, step) => Math.min(least, step.start ?? Infinity), Infinity);
  whole = steps.reduce((most, step) => Math.max(most, (step.start ?? -Infinity) + 1000 * (step.took ?? 0)), 0) - begin;
}

function track(step) {
  if (step.start === undefined || !(whole > 0)) return element("span", {});
  const left = Math.min((100 * (step.start - begin)) / whole, 99);
  const mark = element("i", {});
  mark.style.marginLeft = `${left}%`;
  mark.style.width = `${Math.min((100_000 * (step.took ?? 0)) / whole, 100 - left)}%`;
  return element("span", { class: "track", title: `${Math.round(left)} % into the run` }, mark);
}

// Steps of several prompts stand under theirs: those with its row, behind it.
const members = new Map(); // by the index of a prompt
const heads = new Map(); // by row, the index of the latest prompt
const headOf = new Map(); // by the index of a step, that of its prompt
function group(index) {
  const step = steps[index], row = step.row ?? "";
  if (step.kind === "prompt") {
    members.set(index, []);
    heads.set(row, index);
  } else if (heads.has(row) && !["start", "end", "checkpoint", "line"].includes(step.kind)) {
    members.get(heads.get(row)).push(index);
    headOf.set(index, heads.get(row));
  } else if (step.kind === "start") heads.clear();
}

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
function sumUp(index) {
  const calls = members.get(index).filter((each) => steps[each].kind === "call");
  const failed = calls.filter(isBad).length;
  const answer = steps[members.get(index).findLast((each) => steps[each].kind === "answer")];
  return `${plural(calls.length, "call")}${failed ? `, ${failed} failed` : ""}${answer ? ` · ${preview(answer.sent)}` : ""}`;
}

function row(index) {
  const step = steps[index], isHead = isGrouped() && members.has(index);
  const summary = element(
    "summary",
    {},
    element("span", { class: "soft", title: step.row === undefined ? "" : `Row ${step.row}` }, step.row ?? step.number ?? ""),
    element("b", {}, step.icon ? `${step.icon} ` : "", step.name || ""),
    element("span", {}, step.status ? element("span", { class: `badge ${step.mood || ""}` }, step.status) : ""),
    element("span", {}, preview(step.sent)),
    element("span", {}, isHead ? sumUp(index) : preview(step.error || step.came || step.structured)),
    element("span", { class: "soft" }, seconds(step.took)),
    track(step),
  );
  const made = element("details", { class: ["step", step.kind, step.kind === "call" || isHead ? "" : "said", step.mood, step.altered && "altered"].filter(Boolean).join(" ") }, summary);
  made.addEventListener("toggle", () => {
    if (!made.open || made.children.length > 1) return;
    made.append(...detail(step));
    if (isHead) made.append(element("div", { class: "members" }, ...members.get(index).map((each) => row(each))));
  });
  return made;
}

// Rows are made when they are scrolled to: ten thousand at once would take seconds, and hundreds of megabytes.
const rows = [];
let fitting = [], drawn = 0;
function more() {
  const next = fitting.slice(drawn, drawn + DRAWN_AT_ONCE);
  list.append(...next.map((index) => (rows[index] ??= row(index))));
  drawn += next.length;
}

const isBad = (index) => steps[index].mood === "bad" || Boolean(steps[index].altered);
const isFiltered = () => Boolean(tool.value || status.value || search.value || order.checked);
const isGrouped = () => members.size > 1 && !isFiltered();
function test() {
  const wanted = new RegExp(search.value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "iu"), grouped = isGrouped();
  return (index) => {
    const step = steps[index];
    if (tool.value && step.name !== tool.value) return false;
    if (status.value && step.status !== status.value) return false;
    if (search.value && !TEXTS.some((name) => step[name] && wanted.test(step[name]))) return false;
    return !(grouped && headOf.has(index));
  };
}

function count() {
  const found = isFiltered() && !order.checked ? fitting.length : steps.length, all = plural(steps.length, "step");
  shown.textContent = found === steps.length ? all : `${found.toLocaleString("en")} of ${all}`;
}

let wasGrouped;
function filter() {
  if (wasGrouped !== isGrouped()) rows.length = 0; // a prompt's row has its steps, or has not
  wasGrouped = isGrouped();
  fitting = [...steps.keys()].filter(test());
  if (order.checked) fitting.sort((one, other) => isBad(other) - isBad(one) || one - other);
  drawn = 0;
  list.replaceChildren();
  more();
  count();
}

const known = new Set(); // what can be chosen
function offer(step) {
  for (const [select, value] of [[tool, step.kind === "call" && step.name], [status, step.status]]) {
    if (!value || known.has(select.id + value)) continue;
    known.add(select.id + value);
    const behind = [...select.options].slice(1).find((option) => option.value > value);
    select.add(element("option", { value }, value), behind ?? null);
  }
}

function take(step) {
  const index = steps.push(step) - 1;
  group(index);
  offer(step);
  if (wasGrouped !== isGrouped()) return filter();
  if (headOf.has(index) && wasGrouped) {
    const head = headOf.get(index), made = rows[head];
    if (made) made.querySelector("summary > :nth-child(5)").textContent = sumUp(head);
    made?.querySelector(".members")?.append(row(index));
  } else if (test()(index)) {
    fitting.push(index);
    if (drawn === fitting.length - 1) more();
  }
  count();
}

// What stands above the steps is said anew when the run has ended, or its records are verified.
const above = () => document.getElementById("top");
async function lookAgain() {
  const text = await (await fetch("top")).text();
  const made = new DOMParser().parseFromString(text, "text/html").getElementById("top");
  // Some of the steps look altered, too.
  if (made.querySelector(".note.bad") && !above().querySelector(".note.bad")) return location.reload();
  const pages = above().querySelector("nav[aria-label=Pages]");
  above().replaceWith(document.adoptNode(made));
  if (pages) above().append(pages);
}

async function untilVerified() {
  while (above().querySelector("[data-unchecked]")) {
    await new Promise((resolve) => setTimeout(resolve, NEWS_EVERY));
    if (!document.hidden) await lookAgain().catch(() => document.body.classList.add("lost"));
  }
}

async function news(cursor) {
  let next = cursor;
  if (!document.hidden)
    try {
      const answer = await fetch(`news?after=${cursor}`);
      if (!answer.ok) throw new Error((await answer.json()).error);
      const told = await answer.json();
      if (told.cursor !== cursor) {
        next = told.cursor;
        // The numbers of tools are those of this answer.
        for (const [number, each] of Object.entries(told.tools)) tools[`${next}-${number}`] = each;
        for (const step of told.steps) if (step.tool) step.tool = `${next}-${step.tool}`;
        const before = whole;
        steps.length || measure();
        told.steps.forEach(take);
        measure();
        if (before > 0 && whole > 2 * before) filter(); // the marks of time are half as long
        if (told.steps.some((step) => ["end", "checkpoint"].includes(step.kind))) await lookAgain();
      }
      document.body.classList.remove("lost");
    } catch {
      document.body.classList.add("lost"); // the command has ended, and what is shown is as it was
    }
  setTimeout(news, NEWS_EVERY, next);
}

let soon;
search.addEventListener("input", () => {
  clearTimeout(soon);
  soon = setTimeout(filter, 120);
});
for (const each of [tool, status, order]) each.addEventListener("change", filter);
new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && more(), { rootMargin: "2000px" }).observe(end);
// Arrows go from step to step; Enter unfolds, as the browser does it.
list.addEventListener("keydown", (event) => {
  const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!way || event.target.tagName !== "SUMMARY") return;
  const all = [...list.querySelectorAll(".step > summary")].filter((each) => each.checkVisibility());
  const next = all[all.indexOf(event.target) + way];
  if (!next) return;
  event.preventDefault();
  next.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
  event.preventDefault();
  search.focus();
});
measure();
steps.forEach((step, index) => {
  group(index);
  offer(step);
});
filter();
if (steps.length === 1) rows[0].open = true;
if (list.dataset.cursor) news(list.dataset.cursor);
untilVerified();
