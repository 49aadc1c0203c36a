/** Running a tool: its form, the path as it goes, steps to go back to, values, and results that stay. */
import { ask, button, choice, el, field, pretty, textOf, typed, valueFor } from "./parts.js";

const MOST_ROWS = 500;

export class Runs {
  constructor(host, studio) {
    this.host = host;
    this.studio = studio;
    this.run = null;
    this.records = [];
    this.step = null; // the step that is looked at; null is the last one
    this.given = {}; // what was typed for arguments, by tool
    this.pins = {};
    this.form = el("div");
    this.controls = el("div", { class: "bar", role: "toolbar", "aria-label": "Run" });
    this.state = el("p", { role: "status", class: "state" });
    this.result = el("div");
    this.steps = el("div");
    this.detail = el("div", { "aria-live": "polite" });
    host.replaceChildren(this.form, this.controls, this.state, this.result, this.steps, this.detail);
    this.buttons = {
      run: button("Run", () => this.start({}), { class: "first" }),
      debug: button("Step through", () => this.start({ paused: true })),
      pause: button("Pause", () => this.control("pause")),
      step: button("Next step", () => this.control("step")),
      resume: button("Continue", () => this.control("resume")),
      stop: button("Stop", () => this.control("stop")),
    };
    this.controls.append(...Object.values(this.buttons));
  }

  // The form of the tool's arguments

  show() {
    const { tool } = this.studio;
    if (this.shown !== JSON.stringify([tool?.name, tool?.settings.inputSchema])) {
      this.shown = JSON.stringify([tool?.name, tool?.settings.inputSchema]);
      this.showForm(tool);
    }
    this.showRun();
  }

  showForm(tool) {
    const schema = tool?.settings.inputSchema ?? {};
    const given = (this.given[tool?.name] ??= {});
    const rows = Object.entries(schema.properties ?? {}).map(([name, about]) => {
      const onchange = (event) => (given[name] = event.target.value);
      given[name] ??= textOf(about, about?.default);
      const control = about?.enum
        ? choice(["", ...about.enum.map((one) => textOf(about, one))], given[name], { onchange })
        : el("input", { value: given[name], oninput: onchange, spellcheck: "false" });
      const required = schema.required?.includes(name) ? " (required)" : "";
      return field(`${name}${about?.type ? `: ${about.type}` : ""}${required}`, control, about?.description);
    });
    const title = el("h2", {}, tool ? `Run ${tool.name}` : "Run");
    const none = rows.length ? [] : [el("p", { class: "note" }, "The tool takes no arguments.")];
    this.form.replaceChildren(title, ...rows, ...none);
  }

  arguments() {
    const { tool } = this.studio;
    const properties = tool.settings.inputSchema?.properties ?? {};
    const values = Object.entries(this.given[tool.name] ?? {});
    const pairs = values.map(([name, text]) => [name, valueFor(properties[name], text)]);
    return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
  }

  async start(how) {
    const { tool } = this.studio;
    this.step = null;
    const asked = { tool: tool.name, arguments: this.arguments(), pins: this.pins, ...how };
    await this.studio.tried(async () => {
      await this.studio.settled();
      this.take(await ask("run", asked), true);
    });
  }

  control(action) {
    return this.studio.tried(async () => this.take(await ask("control", { action }), true));
  }

  async refresh() {
    const since = this.records.findIndex((record) => record.endTime === null);
    const from = since < 0 ? this.records.length : since;
    this.take(await ask("history", { since: this.run ? from : 0 }));
  }

  take(run, isWhole = false) {
    if (run === null) return;
    const isOther = isWhole || run.count < this.records.length;
    if (isOther && run.records.length !== run.count) return void this.whole();
    if (isOther) this.records = [];
    this.run = run;
    for (const record of run.records) this.records[record.executionIndex] = record;
    if (this.records.includes(undefined)) return void this.whole();
    this.showRun();
    this.studio.ran();
  }

  async whole() {
    this.records = [];
    this.take(await ask("history", { since: 0 }), true);
  }

  // What ran

  showRun() {
    const status = this.run?.status ?? "";
    const isActive = ["not_started", "running", "paused"].includes(status);
    const { run, debug, pause, step, resume, stop } = this.buttons;
    run.disabled = debug.disabled = isActive || !this.studio.state?.canRun;
    pause.disabled = status !== "running";
    step.disabled = resume.disabled = status !== "paused";
    stop.disabled = !isActive;
    const waiting = this.run?.waiting ? `, waits before ${this.run.waiting.node}` : "";
    const telling = Object.entries(this.run?.progress ?? {}).at(-1);
    const progress = isActive && telling ? ` – ${telling[0]}: ${telling[1]}` : "";
    const words = { finished: "finished", error: "failed", stopped: "stopped", paused: "paused" };
    const text = this.run ? `${this.run.tool}: ${words[status] ?? "running"}${waiting}${progress}` : "";
    if (this.state.textContent !== text) this.state.textContent = text;
    this.showResult();
    this.showSteps();
    this.showDetail();
  }

  showResult() {
    const { run } = this;
    const parts = [];
    if (run && "result" in run) parts.push(el("h3", {}, "Result"), el("pre", { id: "result" }, pretty(run.result)));
    if (run?.error) parts.push(el("p", { class: "error", id: "run-error" }, run.error));
    this.result.replaceChildren(...parts);
  }

  get current() {
    return this.step ?? this.records.length - 1;
  }

  look(step) {
    this.step = Math.max(0, Math.min(this.records.length - 1, step));
    this.showDetail();
    this.studio.ran();
    this.slider.value = this.step;
    for (const row of this.steps.querySelectorAll("tr")) {
      row.classList.toggle("current", Number(row.dataset.step) === this.step);
    }
  }

  showSteps() {
    if (!this.records.length) return void this.steps.replaceChildren();
    const rows = this.records.slice(0, MOST_ROWS).map((record) => {
      const failed = record.error ? "failed" : record.endTime === null ? "…" : "ok";
      const name = [...(record.branch ?? []), record.nodeId].join(" › ");
      const go = button(String(record.executionIndex), () => this.look(record.executionIndex), {
        "aria-label": `Step ${record.executionIndex}, ${name}`,
      });
      const took = record.duration === null ? "" : `${record.duration.toFixed(1)} ms`;
      const cells = [go, name, took, `${failed}${record.isPinned ? ", pinned" : ""}`];
      const current = record.executionIndex === this.current ? "current" : "";
      return el("tr", { class: current, "data-step": record.executionIndex }, ...cells.map((cell) => el("td", {}, cell)));
    });
    const had = document.activeElement?.closest?.("tr")?.dataset.step;
    const onSlider = document.activeElement === this.slider;
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: this.records.length - 1,
      value: this.current,
      "aria-label": "Step to look at",
      oninput: (event) => this.look(Number(event.target.value)),
    });
    const head = el("tr", {}, ...["Step", "Node", "Took", ""].map((text) => el("th", {}, text)));
    const left = this.records.length - rows.length;
    const more = left > 0 ? [el("p", { class: "note" }, `… and ${left} more steps; the slider goes to each`)] : [];
    this.steps.replaceChildren(el("h3", {}, "Steps"), this.slider, el("table", {}, head, ...rows), ...more);
    if (had !== undefined) this.steps.querySelector(`tr[data-step="${had}"] button`)?.focus();
    if (onSlider) this.slider.focus();
  }

  async showDetail() {
    const record = this.records[this.current];
    const key = JSON.stringify([this.current, record, this.pins]);
    if (key === this.detailed || this.detail.contains(document.activeElement)) return;
    this.detailed = key;
    if (!record) return void this.detail.replaceChildren();
    const { nodeId } = record;
    const pinned = nodeId in this.pins;
    const output = el("textarea", {
      value: pretty(pinned ? this.pins[nodeId] : record.output),
      rows: 6,
      spellcheck: "false",
      onchange: (event) => pinned && (this.pins[nodeId] = typed(event.target.value)),
    });
    const pin = () => {
      if (pinned) delete this.pins[nodeId];
      else this.pins[nodeId] = typed(output.value);
      this.detail.querySelector("button")?.blur();
      this.showDetail();
      this.studio.ran();
    };
    const again = button("Run from here", () => this.start({ begin: this.current }));
    const seen = el("pre", { "aria-label": "Values that the node saw" }, "…");
    const values = el("details", {}, el("summary", {}, "Values that the node saw"), seen);
    values.addEventListener("toggle", async () => {
      if (values.open) seen.textContent = pretty(await ask("context", { at: String(record.executionIndex) }));
    });
    this.detail.replaceChildren(
      el("h3", {}, `Step ${record.executionIndex}: ${nodeId}`),
      el("div", { class: "bar" }, again, button(pinned ? "Unpin the output" : "Pin the output", pin)),
      ...(record.error ? [el("p", { class: "error" }, record.error.message)] : []),
      ...("input" in record ? [el("p", { class: "note" }, "Input"), el("pre", {}, pretty(record.input))] : []),
      field(pinned ? "Output, pinned: the node gives this and does not work" : "Output", output),
      values,
      this.tryOut(record),
    );
  }

  /** An expression on what the node of a step saw. */
  tryOut(record) {
    const value = el("pre", { id: "tried", "aria-live": "polite" });
    const look = async (event) => {
      try {
        const at = String(record.executionIndex);
        const answer = await ask("evaluate", { expression: event.target.value, at });
        value.textContent = "value" in answer ? pretty(answer.value) : (answer.error ?? "nothing");
      } catch (error) {
        value.textContent = error.message;
      }
    };
    const control = el("input", { id: "try", onchange: look, spellcheck: "false" });
    return el("div", {}, field("Try an expression here", control, "JSONata, on the values that the node saw"), value);
  }

  /** Marks for the drawing: the steps of each node, its state, and the ways up to the step that is looked at. */
  marks(tool) {
    const steps = {};
    const states = {};
    const taken = new Set();
    if (!tool || this.run?.tool !== tool.name) return { steps, states, taken };
    for (const record of this.records.slice(0, this.current + 1)) {
      if (record.ways === null) continue; // of a tool that a node called
      const id = record.nodeId;
      (steps[id] ??= []).push(record.executionIndex);
      states[id] = record.error ? "failed" : record.endTime === null ? "running" : "ran";
      for (const way of record.ways) taken.add(JSON.stringify(way));
    }
    for (const [id, numbers] of Object.entries(steps)) {
      steps[id] = numbers.length <= 4 ? numbers.join(", ") : `${numbers[0]} … ${numbers.at(-1)} (${numbers.length}×)`;
    }
    if (this.run.waiting && this.step === null) states[this.run.waiting.node] = "waiting";
    return { steps, states, taken };
  }

  /** The step of a node's last execution up to the one that is looked at, as a text; null if there is none. */
  stepOf(id) {
    const found = this.records.slice(0, this.current + 1).findLast((record) => record.nodeId === id);
    return found ? String(found.executionIndex) : null;
  }
}
