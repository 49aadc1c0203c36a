/** The drawing: nodes that take the focus, ways between them, zoom and pan. */
import { svg } from "./parts.js";

const SMALLEST = 0.1;
const LARGEST = 4;
const CUT = 10;

export class GraphView {
  /** `on`: what becomes of a node: select, open, connect. */
  constructor(host, on) {
    this.on = on;
    this.host = host;
    this.place = { x: 0, y: 0, scale: 1 };
    this.selected = null;
    this.root = svg("g");
    this.picture = svg("svg", { role: "group", "aria-label": "Graph", tabindex: "-1" });
    const heads = ["plain", "taken"].map((name) => {
      const sizes = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9 };
      const mark = svg("marker", { id: `head-${name}`, orient: "auto", markerUnits: "userSpaceOnUse", ...sizes });
      mark.append(svg("path", { d: "M0,0 L8,4 L0,8 z", class: `head ${name}` }));
      return mark;
    });
    this.picture.append(svg("defs", {}, ...heads), this.root);
    host.replaceChildren(this.picture);
    this.picture.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.picture.addEventListener("pointerdown", (event) => this.down(event));
  }

  show(tool) {
    const isOther = tool?.name !== this.tool?.name;
    const had = this.host.contains(document.activeElement);
    this.tool = tool;
    this.boxes = new Map();
    this.lines = [];
    const drawing = tool?.drawing ?? { boxes: {}, lines: [] };
    const lines = drawing.lines.map((line) => this.line(line));
    const boxes = (tool?.nodes ?? []).map((node) => this.box(node, drawing.boxes[node.id]));
    this.root.replaceChildren(...lines, ...boxes);
    if (!this.boxes.has(this.selected)) this.selected = null;
    this.mark(this.marks ?? {});
    if (isOther) this.fit();
    if (had) this.focus(this.selected ?? tool?.nodes[0]?.id);
  }

  line(line) {
    const [start, ...rest] = line.points;
    let path = `M${start[0]},${start[1]}`;
    let before = start;
    for (const [x, y] of rest) {
      const middle = (before[1] + y) / 2;
      path += line.isBack ? ` L${x},${y}` : ` C${before[0]},${middle} ${x},${middle} ${x},${y}`;
      before = [x, y];
    }
    const way = svg("path", { d: path, class: "way" });
    const group = svg("g", {}, way);
    if (line.label) {
      const [[x0, y0], [x1, y1]] = line.isBack ? line.points.slice(1, 3) : line.points.slice(0, 2);
      const part = line.isBack ? 0.3 : 0.65;
      const label = svg("text", { x: x0 + (x1 - x0) * part, y: y0 + (y1 - y0) * part + 4, class: "label" });
      label.append(line.label);
      group.append(label);
    }
    this.lines.push({ ...line, way });
    return group;
  }

  box(node, at) {
    const [left, top] = [at.x - at.width / 2, at.y - at.height / 2];
    const [right, bottom] = [left + at.width, top + at.height];
    const points =
      `${left + CUT},${top} ${right - CUT},${top} ${right + CUT},${at.y} ${right - CUT},${bottom}` +
      ` ${left + CUT},${bottom} ${left - CUT},${at.y}`;
    const rectangle = { x: left, y: top, width: at.width, height: at.height, rx: node.shape === "end" ? 22 : 6 };
    const shape = node.shape === "switch" ? svg("polygon", { points }) : svg("rect", rectangle);
    shape.setAttribute("class", "shape");
    const texts = [svg("text", { x: at.x, y: at.y + (node.detail ? -2 : 4.5) })];
    texts[0].append(shortened(node.id));
    if (node.detail) {
      texts.push(svg("text", { x: at.x, y: at.y + 14, class: "small" }));
      texts[1].append(shortened(node.detail));
    }
    const step = svg("text", { x: left - 4, y: top - 4, class: "small step" });
    const stop = svg("circle", { cx: left, cy: at.y, r: 5, class: "stop" });
    const port = svg("circle", { cx: at.x, cy: bottom, r: 6, class: "port" });
    const parts = node.type === "exit" ? [shape, ...texts, step, stop] : [shape, ...texts, step, stop, port];
    const group = svg("g", { class: "node", role: "button", tabindex: "-1", "data-id": node.id }, ...parts);
    group.addEventListener("click", () => this.on.select(node.id));
    group.addEventListener("dblclick", () => this.on.open(node.id));
    group.addEventListener("focus", () => this.reveal(node.id));
    this.boxes.set(node.id, { node, at, group, step });
    return group;
  }

  /** Marks for what is known of each node: problems, breakpoints, steps, path. */
  mark(marks) {
    this.marks = marks;
    const { problems = {}, stops = [], steps = {}, taken = new Set(), states = {} } = marks;
    for (const [id, { node, group, step }] of this.boxes) {
      const found = problems[id] ?? [];
      const names = ["node", node.shape === "end" ? "end" : "", states[id] ?? ""];
      if (found.length) names.push(found.some((one) => one.severity === "error") ? "wrong" : "doubtful");
      if (stops.includes(id)) names.push("stops");
      if (id === this.selected) names.push("selected");
      if (id === this.source) names.push("source");
      group.setAttribute("class", names.filter(Boolean).join(" "));
      step.textContent = steps[id] ?? "";
      group.setAttribute("aria-pressed", String(id === this.selected));
      group.setAttribute("aria-label", this.name(node, found, stops.includes(id), states[id], steps[id]));
      group.setAttribute("tabindex", id === (this.selected ?? this.tool.nodes[0]?.id) ? "0" : "-1");
    }
    for (const { source, target, isError, way } of this.lines) {
      const isTaken = taken.has(JSON.stringify([source, target]));
      way.setAttribute("class", `way${isError ? " error" : ""}${isTaken ? " taken" : ""}`);
      way.setAttribute("marker-end", `url(#head-${isTaken ? "taken" : "plain"})`);
    }
  }

  name(node, found, stops, state, steps) {
    const ways = this.tool.ways.filter((way) => way.source === node.id);
    const parts = [node.id, node.detail || node.type];
    parts.push(...ways.map((way) => `${way.label || "then"} ${way.target}`));
    if (found.length) parts.push(`${found.length} ${found.length === 1 ? "finding" : "findings"}`);
    if (stops) parts.push("breakpoint");
    if (state) parts.push(`${state}${steps ? `, step ${steps}` : ""}`);
    return parts.join(", ");
  }

  select(id) {
    this.selected = id;
    this.mark(this.marks ?? {});
  }

  focus(id) {
    this.boxes.get(id)?.group.focus({ preventScroll: true });
  }

  get focused() {
    return document.activeElement?.dataset?.id ?? null;
  }

  /** The nearest node in a direction; the way first, when it leads there. */
  beside(id, key) {
    const here = this.boxes.get(id)?.at;
    if (!here) return this.tool?.nodes[0]?.id;
    const ways = this.tool.drawing.lines.filter((line) => !line.isBack);
    if (key === "ArrowDown" || key === "ArrowUp") {
      const [from, to] = key === "ArrowDown" ? ["source", "target"] : ["target", "source"];
      const next = ways.find((line) => line[from] === id);
      if (next) return next[to];
    }
    const sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
    const across = key === "ArrowLeft" || key === "ArrowRight";
    let best = null;
    for (const [other, { at }] of this.boxes) {
      const along = sign * (across ? at.x - here.x : at.y - here.y);
      const aside = Math.abs(across ? at.y - here.y : at.x - here.x);
      if (other === id || along <= 1) continue;
      if (best === null || along + 3 * aside < best.far) best = { other, far: along + 3 * aside };
    }
    return best?.other ?? id;
  }

  // Zoom and pan

  apply() {
    const { x, y, scale } = this.place;
    this.root.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
  }

  fit() {
    const { width = 1, height = 1 } = this.tool?.drawing ?? {};
    const frame = this.picture.getBoundingClientRect();
    const scale = Math.min(1.2, Math.max(SMALLEST, Math.min(frame.width / width, frame.height / height)));
    this.place = { scale, x: (frame.width - width * scale) / 2, y: Math.max(0, (frame.height - height * scale) / 2) };
    this.apply();
  }

  zoom(factor, at) {
    const frame = this.picture.getBoundingClientRect();
    const [x, y] = at ?? [frame.width / 2, frame.height / 2];
    const scale = Math.min(LARGEST, Math.max(SMALLEST, this.place.scale * factor));
    const ratio = scale / this.place.scale;
    this.place = { scale, x: x - (x - this.place.x) * ratio, y: y - (y - this.place.y) * ratio };
    this.apply();
  }

  wheel(event) {
    event.preventDefault();
    const frame = this.picture.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 500), [event.clientX - frame.left, event.clientY - frame.top]);
  }

  reveal(id) {
    const at = this.boxes.get(id)?.at;
    const frame = this.picture.getBoundingClientRect();
    const { scale } = this.place;
    const [x, y] = [this.place.x + at.x * scale, this.place.y + at.y * scale];
    const [wide, high] = [(at.width * scale) / 2 + 12, (at.height * scale) / 2 + 12];
    this.place.x += Math.max(0, wide - x) + Math.min(0, frame.width - wide - x);
    this.place.y += Math.max(0, high - y) + Math.min(0, frame.height - high - y);
    this.apply();
  }

  down(event) {
    const node = event.target.closest?.(".node");
    if (event.target.classList.contains("port")) this.pull(event, node.dataset.id);
    else if (!node) this.pan(event);
  }

  pan(event) {
    const { x, y } = this.place;
    this.drag(event, (now) => {
      this.place.x = x + now.clientX - event.clientX;
      this.place.y = y + now.clientY - event.clientY;
      this.apply();
    });
  }

  /** Draws a line from a node's port to the pointer, and connects the node on which it is let go. */
  pull(event, source) {
    const frame = this.picture.getBoundingClientRect();
    const { at } = this.boxes.get(source);
    const line = svg("path", { class: "pulled" });
    this.root.append(line);
    const end = (now) => {
      const [x, y] = [now.clientX - frame.left - this.place.x, now.clientY - frame.top - this.place.y];
      const { scale } = this.place;
      line.setAttribute("d", `M${at.x},${at.y + at.height / 2} L${x / scale},${y / scale}`);
    };
    this.drag(event, end, (now) => {
      line.remove();
      const target = document.elementFromPoint(now.clientX, now.clientY)?.closest(".node")?.dataset.id;
      if (target !== undefined && target !== source) this.on.connect(source, target);
    });
  }

  drag(event, move, end = () => {}) {
    event.preventDefault();
    const over = new AbortController();
    const { signal } = over;
    addEventListener("pointermove", move, { signal });
    for (const name of ["pointerup", "pointercancel"]) {
      addEventListener(
        name,
        (now) => {
          over.abort();
          if (name === "pointerup") end(now);
        },
        { signal },
      );
    }
  }
}

const shortened = (text) => (text.length <= 38 ? text : `${text.slice(0, 37)}…`);
