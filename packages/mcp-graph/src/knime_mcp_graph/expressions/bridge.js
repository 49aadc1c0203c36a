// What Python calls: each function leaves its outcome as JSON in `outcome`, perhaps after pending jobs.
// Python cannot be called while an engine's limit of time holds, so that questions wait in `asked`.
"use strict";
var outcome, asked = [];
(() => {
  const options = { timeout: 0, stack: 1000, sequence: 5000000 };
  const mostEntries = 5000000, mostExpressions = 500;
  const compiled = new Map();

  // The engine's own `join` cannot be interrupted; $pad makes a text of any length with it.
  const join = Array.prototype.join;
  Array.prototype.join = function (separator) {
    if (this.length > mostEntries) throw new RangeError(`it makes a text of ${this.length - 1} parts`);
    return join.call(this, separator);
  };

  const ask = (name, ...values) =>
    new Promise((resolve) => asked.push({ question: JSON.stringify([name, values]), resolve }));
  const first = (found) => found[0];
  const history = {
    previousNode: [(steps = 1) => ask("previousNode", steps).then(first), "<n?:o>"],
    executionCount: [(node) => ask("executionCount", node).then(first), "<s:n>"],
    nodeExecution: [(node, index) => ask("nodeExecution", node, index).then(first), "<s-n:o>"],
    nodeExecutions: [(node) => ask("nodeExecutions", node).then((all) => all.map(first)), "<s:a>"],
    nodeContent: [(node) => ask("nodeContent", node).then(first), "<s:a>"],
  };

  const expression = (text, withHistory) => {
    const key = withHistory + text;
    let found = compiled.get(key);
    if (found === undefined) {
      found = jsonata(text, options);
      if (withHistory) for (const name in history) found.registerFunction(name, ...history[name]);
      if (compiled.size >= mostExpressions) compiled.clear();
      compiled.set(key, found);
    }
    return found;
  };

  // Functions are no values. As in JSON, undefined members are left out, and undefined entries are null.
  const plain = (_, value) =>
    typeof value === "function" || (value && (value._jsonata_lambda || value._jsonata_function))
      ? undefined : value;
  const failed = (error) => {
    const { code, message, position, of } = error ?? {};
    outcome = JSON.stringify({ error: { code, message: String(message ?? error), position, of } });
  };
  const given = (value) => { outcome = JSON.stringify({ value, holds: Boolean(value) }, plain); };
  const finish = (work) => {
    outcome = undefined;
    asked = [];
    (async () => work())().then(given).catch(failed);
  };

  globalThis.answer = (json) => asked.shift().resolve(JSON.parse(json));
  globalThis.question = () => (asked.length ? asked[0].question : undefined);
  globalThis.syntax = (text) => {
    try { outcome = JSON.stringify({ value: jsonata(JSON.parse(text)).ast() }); } catch (error) { failed(error); }
  };
  globalThis.evaluate = (text, context, bindings, withHistory, milliseconds) => {
    options.timeout = milliseconds;
    finish(() => expression(JSON.parse(text), withHistory).evaluate(JSON.parse(context), JSON.parse(bindings)));
  };

  // JSON Logic, with the library's operators. What decides which parts are evaluated, and in which context, is
  // here: a `var` may be JSONata, whose evaluation the library would not wait for, and data is never a rule.
  let operands = [];
  jsonLogic.add_operation("operand", (index) => operands[index]);
  const operate = (name, values, data) => {
    operands = values;
    return jsonLogic.apply({ [name]: values.map((_, index) => ({ operand: [index] })) }, data);
  };
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  const isVar = (value) => isObject(value) && Object.keys(value).length === 1 && "var" in value;
  const isJSONata = (value) => {
    const text = Array.isArray(value) ? value[0] : value;
    return typeof text === "string" && text.startsWith("$");
  };
  class Data { constructor(value) { this.value = value; } }

  class Rule {
    constructor(context, withHistory, data, bindings, isEntry) {
      Object.assign(this, { context, withHistory, data, bindings, isEntry });
    }

    inside(data, bindings) {
      return new Rule(this.context, this.withHistory, data, { ...this.bindings, ...bindings }, true);
    }

    async apply(rule) {
      if (rule instanceof Data) return rule.value;
      if (Array.isArray(rule)) return this.all(rule);
      if (!isObject(rule)) return rule;
      const names = Object.keys(rule);
      // An object of several keys is no rule, but data in which a `var` still counts.
      if (names.length !== 1) return this.filled(rule);
      const [name] = names;
      if (name === "var") return this.variable(rule.var);
      const parts = await this.parts(rule[name]);
      switch (name) {
        case "if": case "?:": return this.choose(parts);
        case "and": case "or": return this.join(parts, name === "or");
        case "map": case "filter": case "all": case "some": case "none": return this.each(name, ...parts);
        case "reduce": return this.reduce(...parts);
        default: return operate(name, await this.all(parts), this.data);
      }
    }

    async all(parts) {
      const values = [];
      for (const part of parts) values.push(await this.apply(part));
      return values;
    }

    async parts(value) {
      if (!isVar(value)) return Array.isArray(value) ? value : [value];
      const found = await this.variable(value.var);
      const isPath = this.isEntry && !isJSONata(value.var);
      return !isPath && Array.isArray(found) ? found.map((one) => new Data(one)) : [new Data(found)];
    }

    async jsonata(text) {
      try {
        const found = await expression(text, this.withHistory).evaluate(this.context, this.bindings);
        return Array.isArray(found) ? [...found] : found; // two `var` never give the same list
      } catch (error) {
        const { code, message } = error;
        throw { code, message, of: text };
      }
    }

    async variable(value) {
      if (!this.isEntry) {
        if (typeof value === "string") return this.jsonata(value);
        const kind = value === null ? "object" : typeof value;
        throw { message: `JSON Logic var operation must have a string value, got ${kind}` };
      }
      const [path, ...otherwise] = Array.isArray(value) ? value : [value];
      if (isJSONata(value)) {
        const found = await this.jsonata(path);
        return found === undefined && otherwise.length ? this.apply(otherwise[0]) : found;
      }
      return operate("var", await this.all(value === path ? [path] : value), this.data);
    }

    async filled(value) {
      if (Array.isArray(value)) {
        const filled = [];
        for (const one of value) filled.push(await this.filled(one));
        return filled;
      }
      if (!isObject(value)) return value;
      if (isVar(value)) return this.variable(value.var);
      const filled = {};
      for (const name of Object.keys(value)) filled[name] = await this.filled(value[name]);
      return filled;
    }

    async choose(parts) {
      let index = 0;
      for (; index < parts.length - 1; index += 2) {
        if (jsonLogic.truthy(await this.apply(parts[index]))) return this.apply(parts[index + 1]);
      }
      return index < parts.length ? this.apply(parts[index]) : null;
    }

    async join(parts, isOr) {
      let current;
      for (const part of parts) {
        current = await this.apply(part);
        if (jsonLogic.truthy(current) === isOr) break;
      }
      return current;
    }

    async each(name, list, body) {
      const entries = await this.apply(list);
      const found = [];
      for (const item of Array.isArray(entries) ? entries : []) {
        const result = await this.inside(item, { item }).apply(body);
        const holds = jsonLogic.truthy(result);
        if (holds ? name === "some" : name === "all") return holds;
        if (holds && name === "none") return false;
        if (name === "map") found.push(result);
        if (name === "filter" && holds) found.push(item);
      }
      if (name === "map" || name === "filter") return found;
      return name === "none" || (name === "all" && Array.isArray(entries) && entries.length > 0);
    }

    async reduce(list, body, initial = null) {
      const entries = await this.apply(list);
      let accumulator = await this.apply(initial);
      for (const current of Array.isArray(entries) ? entries : []) {
        const seen = { current, accumulator };
        accumulator = await this.inside(seen, seen).apply(body);
      }
      return accumulator;
    }
  }

  globalThis.apply = (rule, context, withHistory, isStandard, milliseconds) => {
    options.timeout = milliseconds;
    const data = JSON.parse(context);
    finish(() => new Rule(data, withHistory, data, {}, isStandard).apply(JSON.parse(rule)));
  };
})();
