// The chat's page. It shows events as the service tells them, one element each. Texts of servers and models
// are put into elements as text; nothing here makes markup of a text.
"use strict";

(() => {
  const WAIT_AFTER_FAILURE = 2000;
  const WAIT_WHEN_IDLE = 1500;
  const CANNOT_HAND_ON =
    "This version of KNIME takes nothing from a view: what is said here does not leave it. Use KNIME 5.8 or later.";
  const NOT_FOUND = "What was said here before KNIME was opened is here again after the node is executed.";
  const FORGOTTEN = "Forgotten. What tools have done stays done.";
  const byId = (id) => document.getElementById(id);
  const talk = byId("talk");
  const question = byId("question");
  const cards = new Map(); // of calls, by question and id
  const answers = new Map(); // by question and turn
  const asked = new Map(); // by number
  let last = 0;
  let busy = false;
  let handsOn = false;
  let handedOn = false;
  let isAnswered = false; // the last question, and nobody has handed it on
  let wake = () => {};

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value === true || value === false) made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  const button = (label, onclick, kind = "") => element("button", { type: "button", class: kind, onclick }, label);

  function add(...made) {
    const atEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 80;
    talk.append(...made);
    if (atEnd) follow();
  }

  function follow() {
    talk.scrollTop = talk.scrollHeight;
  }

  const SHOW = {
    question: (event) => {
      add(element("div", { class: "question", "aria-label": "You", role: "article" }, event.text));
    },
    delta: (event) => {
      const shown = answerOf(event);
      shown.said += event.text;
      shown.element.textContent = shown.said;
      shown.element.setAttribute("aria-busy", "true"); // read out when it is whole
    },
    answer: (event) => {
      if (!event.text) return;
      const { element: shown } = answerOf(event);
      shown.replaceChildren(...markdown.blocks(event.text));
      shown.removeAttribute("aria-busy");
    },
    call: (event) => {
      const card = element("details", { class: "card", role: "article", "aria-label": `Call of ${event.name}` });
      cards.set(`${event.question}/${event.id}`, card);
      fill(card, event);
      add(card);
    },
    result: (event) => {
      const card = cards.get(`${event.question}/${event.id}`);
      if (card) fill(card, { ...card.call, ...event });
    },
    ask: (event) => add(request(event)),
    decided: (event) => {
      const card = asked.get(event.number); // the call's own card says what was decided
      const hadFocus = card?.contains(document.activeElement);
      card?.remove();
      if (hadFocus) question.focus();
    },
    table: (event) => add(tableCard(event)),
    note: (event) => add(element("p", { class: "note" }, event.text)),
    stopped: (event) => {
      add(element("p", { class: "note" }, event.text));
      forget();
    },
    error: (event) => {
      add(element("p", { class: "error", role: "alert" }, event.text));
      forget();
    },
    end: () => {
      isAnswered = true;
      knime.share();
    },
    undone: () => {
      forget();
      add(element("p", { class: "note" }, FORGOTTEN));
    },
    cleared: () => {
      for (const one of talk.children) one.classList.add("undone");
      add(element("p", { class: "note" }, FORGOTTEN));
    },
  };

  function answerOf(event) {
    const key = `${event.question}/${event.turn}`;
    if (!answers.has(key)) {
      const made = element("div", { class: "answer", role: "article", "aria-label": "Answer" });
      answers.set(key, { element: made, said: "" });
      add(made);
    }
    return answers.get(key);
  }

  // What is not part of the conversation any more stays to be seen, but pale.
  function forget() {
    const shown = [...talk.children];
    const begin = shown.map((one) => one.matches(".question:not(.undone)")).lastIndexOf(true);
    if (begin < 0) return;
    for (const one of shown.slice(begin)) if (!one.matches(".error, .note")) one.classList.add("undone");
  }

  function fill(card, call) {
    card.call = call;
    const done = call.kind === "result";
    card.className = `card ${done ? call.meaning : ""}`;
    const facts = [call.server, done && call.seconds !== undefined ? `${call.seconds.toFixed(2)} s` : "", call.decision];
    card.replaceChildren(
      element(
        "summary",
        {},
        element("strong", {}, call.name ?? "Tool"),
        " ",
        element("span", { class: "status" }, done ? call.status || "done" : "is called …"),
        " ",
        element("span", { class: "facts" }, facts.filter(Boolean).join(" · ")),
      ),
      element("div", { class: "facts" }, "Arguments"),
      element("pre", { tabindex: "0", "aria-label": "Arguments" }, call.arguments ?? ""),
    );
    if (!done) return;
    card.append(element("div", { class: "facts" }, "Result"), element("pre", { tabindex: "0", "aria-label": "Result" }, call.text));
    for (const { type, data } of call.pictures ?? []) {
      if (!/^image\/(png|jpeg|gif|webp)$/.test(type)) continue;
      card.append(element("img", { src: `data:${type};base64,${data}`, alt: `Picture of ${call.name ?? "a tool"}` }));
      card.open = true;
    }
  }

  // Somebody has to decide: about a call, or about what a server asks.
  const TITLES = {
    call: (event) => `May ${event.name} be called?`,
    model: () => "May a server ask your model?",
    answer: () => "May the server get this answer?",
    form: () => "A server asks you",
    page: () => "A server wants you to open a page",
  };

  function request(event) {
    const label = TITLES[event.about](event);
    const card = element("section", { class: "card asks", role: "group", "aria-label": label, title: event.name });
    const problem = element("p", { class: "error", role: "alert", hidden: true });
    const decide = async (answer, text = "") => {
      const wrong = await tried(() => knime.call("decide", event.number, answer, text));
      problem.textContent = wrong ?? "";
      problem.hidden = !wrong;
      wake();
    };
    const parts = event.fields ? form(event, decide) : event.page ? page(event, decide) : call(event, decide);
    card.append(
      element("p", {}, element("strong", {}, label), " ", element("span", { class: "facts" }, `${event.server} · ${event.why}`)),
      ...parts.shown,
      problem,
      element("div", { class: "buttons" }, ...parts.buttons),
    );
    asked.set(event.number, card);
    setTimeout(() => {
      if (card.isConnected && (document.activeElement === question || document.activeElement === document.body))
        card.querySelector(event.fields ? "input, select, button" : "button.first")?.focus();
      follow();
    });
    return card;
  }

  function call(event, decide) {
    const written = event.text ?? event.arguments;
    const isAnswer = event.text !== undefined;
    const edited = element("textarea", { rows: Math.min(12, written.split("\n").length), readonly: "", spellcheck: "false", "aria-label": isAnswer ? "Answer" : "Arguments" });
    edited.value = written;
    const reason = element("input", { type: "text", "aria-label": "Why not", placeholder: "Why not (optional)" });
    const edit = button("Edit", () => {
      if (edited.readOnly) {
        edited.readOnly = false;
        edit.textContent = "Send as edited";
        edited.focus();
      } else decide("edit", isAnswer ? JSON.stringify({ text: edited.value }) : edited.value);
    });
    const always = event.about === "call" ? "Always allow this tool" : "Always for this server";
    const buttons = [button("Allow", () => decide("allow"), "first"), button(always, () => decide("always")), edit];
    return { shown: [edited], buttons: [...buttons, button("Deny", () => decide("deny", reason.value)), reason] };
  }

  // The address stands as text: it is not opened by a click that somebody did not mean.
  function page(event, decide) {
    return {
      shown: [element("pre", { tabindex: "0", "aria-label": "Address of the page" }, event.page)],
      buttons: [button("I have opened it", () => decide("allow")), button("No", () => decide("deny"), "first"), button("Not now", () => decide("dismiss"))],
    };
  }

  function form(event, decide) {
    const rows = event.fields.map((field) => ({ field, ...control(field) }));
    const send = () => {
      const content = {};
      for (const { field, read } of rows) {
        const value = read();
        if (value !== undefined) content[field.name] = value;
      }
      decide("edit", JSON.stringify(content));
    };
    const shown = rows.map(({ field, made }) => {
      const name = element("span", {}, field.label, field.is_required ? " *" : "");
      const hint = element("span", { class: "facts" }, field.hint);
      return field.kind === "choices" ? element("fieldset", {}, element("legend", {}, name), hint, made) : element("label", {}, name, " ", hint, made);
    });
    const wrapped = element("div", { class: "form" }, ...shown);
    wrapped.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.tagName === "INPUT") send();
    });
    return { shown: [wrapped], buttons: [button("Send", send, "first"), button("Decline", () => decide("deny")), button("Not now", () => decide("dismiss"))] };
  }

  // An input for a field, and what reads it; undefined is a field that is left out.
  function control(field) {
    const known = field.default ?? undefined;
    if (field.kind === "choices") {
      const boxes = field.choices.map(([value, title]) => {
        const box = element("input", { type: "checkbox", checked: (known ?? []).includes(value) });
        return { value, box, made: element("label", {}, box, " ", title) };
      });
      const read = () => {
        const chosen = boxes.filter(({ box }) => box.checked).map(({ value }) => value);
        return chosen.length || field.is_required ? chosen : undefined;
      };
      return { made: element("div", {}, ...boxes.map(({ made }) => made)), read };
    }
    if (field.kind === "choice" || field.kind === "boolean") {
      const choices = field.kind === "choice" ? field.choices : [["true", "Yes"], ["false", "No"]];
      const made = element("select", {}, ...[["", "—"], ...choices].map(([value, title]) => element("option", { value }, title)));
      made.value = known === undefined ? "" : String(known);
      const read = () => (made.value === "" ? undefined : field.kind === "boolean" ? made.value === "true" : made.value);
      return { made, read };
    }
    const isNumber = field.kind !== "text";
    const type = isNumber ? "number" : { email: "email", date: "date", uri: "url" }[field.format] ?? "text";
    const made = element("input", { type, ...(isNumber ? { step: field.kind === "integer" ? "1" : "any" } : {}) });
    made.value = known === undefined ? "" : String(known);
    const read = () => (made.value === "" ? undefined : isNumber ? Number(made.value) : made.value);
    return { made, read };
  }

  // The prompts of the servers, asked for when the menu is opened.
  async function listPrompts() {
    const menu = byId("prompts");
    if (!menu.open) return;
    const list = menu.querySelector("ul");
    list.replaceChildren(element("li", { class: "facts" }, "The servers are asked …"));
    try {
      const { prompts, problems } = await knime.call("prompts");
      const lines = prompts.map((prompt, number) =>
        element("li", {}, button(prompt.name, () => openPrompt(prompt, number)), " ", element("span", { class: "facts" }, `${prompt.hint} · ${prompt.server}`)));
      lines.push(...problems.map((text) => element("li", { class: "error" }, text)));
      list.replaceChildren(...(lines.length ? lines : [element("li", { class: "facts" }, "There are none.")]));
      list.querySelector("button")?.focus();
    } catch (error) {
      list.replaceChildren(element("li", { class: "error" }, error.message));
    }
  }

  function openPrompt(prompt, number) {
    byId("prompts").open = false;
    const problem = element("p", { class: "error", role: "alert", hidden: true });
    const inputs = prompt.arguments.map(({ name }) => ({ name, input: element("input", { type: "text" }) }));
    const send = async () => {
      const given = inputs.filter(({ input }) => input.value).map(({ name, input }) => [name, input.value]);
      const wrong = await tried(() => knime.call("ask_prompt", number, Object.fromEntries(given)));
      problem.textContent = wrong ?? "";
      problem.hidden = !wrong;
      if (wrong) return;
      card.remove();
      showBusy(true);
      wake();
    };
    const labels = prompt.arguments.map(({ name, hint, is_required }, place) =>
      element("label", {}, name, is_required ? " * " : " ", element("span", { class: "facts" }, hint), inputs[place].input));
    const shown = element("div", { class: "form" }, ...labels);
    shown.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.tagName === "INPUT") send();
    });
    const card = element("section", { class: "card", role: "group", "aria-label": `Prompt ${prompt.name}` },
      element("p", {}, element("strong", {}, prompt.name), " ", element("span", { class: "facts" }, `${prompt.server} · ${prompt.hint}`)),
      shown, problem,
      element("div", { class: "buttons" }, button("Ask this", send, "first"), button("Cancel", () => card.remove())));
    add(card);
    card.querySelector("input, button").focus();
  }

  function tableCard(event) {
    const head = element("tr", {}, ...event.columns.map((name) => element("th", { scope: "col" }, name)));
    const rows = event.rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
    const more = [`${event.total} rows`];
    if (event.rows.length < event.total) more.push(`the first ${event.rows.length} are shown`);
    if (event.left_out) more.push(`${event.left_out} more columns`);
    return element(
      "details",
      { class: "card good", open: true, role: "article", "aria-label": `Table ${event.name}` },
      element("summary", {}, element("strong", {}, `Table ${event.name}`), " ", element("span", { class: "facts" }, more.join(" · "))),
      element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `Rows of ${event.name}` },
        element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))),
    );
  }

  function showCost(cost) {
    if (!cost) return;
    const parts = [`${cost.read.toLocaleString("en")} tokens read, ${cost.written.toLocaleString("en")} written`];
    if (cost.unreported) parts[0] = `at least ${parts[0]}`;
    parts.push(cost.calls === 1 ? "1 call" : `${cost.calls} calls`);
    const text = parts.join(" · ");
    if (byId("cost").textContent !== text) byId("cost").textContent = text;
  }

  function showBusy(now) {
    busy = now;
    byId("ask").hidden = now;
    byId("stop").hidden = !now;
    byId("undo").disabled = byId("start-over").disabled = now;
    byId("hand-on").disabled = now;
    byId("suggestions").hidden = now || talk.childElementCount > 0;
    say(now ? (talk.querySelector(".asks") ? "Waiting for you" : "Answering …") : "");
    if (!now && handsOn && isAnswered) handOn();
  }

  function say(text) {
    if (byId("state").textContent !== text) byId("state").textContent = text;
  }

  async function tried(action) {
    try {
      return await action();
    } catch (error) {
      return error.message;
    }
  }

  async function ask(text) {
    if (!text.trim() || busy) return;
    const wrong = await tried(() => knime.call("ask", text));
    if (wrong) return say(wrong);
    question.value = "";
    showBusy(true);
    wake();
  }

  async function handOn() {
    say("The node is executed again …");
    handedOn = true;
    const wrong = await tried(() => knime.handOn());
    if (wrong) {
      handedOn = false;
      say(wrong);
    }
  }

  const pause = (time) =>
    new Promise((resolve) => {
      wake = resolve;
      setTimeout(resolve, time);
    });

  async function listen() {
    while (!handedOn) {
      try {
        const news = await knime.call("poll", last);
        last = news.last;
        for (const event of news.events) SHOW[event.kind](event);
        showCost(news.cost);
        showBusy(news.busy);
        if (!news.busy) await pause(WAIT_WHEN_IDLE);
      } catch (error) {
        say(`${error.message} Trying again …`);
        await pause(WAIT_AFTER_FAILURE);
      }
    }
  }

  function buttons() {
    byId("ask").addEventListener("click", () => ask(question.value));
    byId("stop").addEventListener("click", async () => {
      await tried(() => knime.call("stop"));
      wake();
      question.focus();
    });
    const forgets = (button, call) =>
      button.addEventListener("click", async () => {
        const wrong = await tried(call);
        if (wrong) say(wrong);
        wake();
      });
    forgets(byId("undo"), () => knime.call("undo"));
    forgets(byId("start-over"), () => knime.call("start_over"));
    byId("hand-on").addEventListener("click", handOn);
    byId("prompts").addEventListener("toggle", listPrompts);
    question.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        ask(question.value);
      }
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && busy) {
        event.preventDefault();
        byId("stop").click();
      }
    });
  }

  async function begin() {
    buttons();
    const started = await tried(() => knime.call("start"));
    if (typeof started === "string" || started.problem) {
      talk.append(element("p", { class: "error", role: "alert" }, started.problem ?? started));
      question.disabled = byId("ask").disabled = true;
      return;
    }
    byId("hand-on").hidden = !knime.inFrame || !started.can_hand_on;
    handsOn = started.hands_on && !byId("hand-on").hidden;
    if (knime.inFrame && !started.can_hand_on) talk.append(element("p", { class: "note" }, CANNOT_HAND_ON));
    if (knime.inFrame && !started.finds_earlier) talk.append(element("p", { class: "note" }, NOT_FOUND));
    byId("tools").hidden = !started.tools.length;
    byId("prompts").hidden = !started.tools.some(({ server }) => /^(https?|stdio):/.test(server));
    byId("tools").querySelector("summary").textContent = `${started.tools.length} tools`;
    byId("tools").querySelector("ul").append(
      ...started.tools.map(({ name, server }) => element("li", {}, element("strong", {}, name), ` ${server}`)),
    );
    byId("suggestions").append(...started.suggestions.map((text) => button(text, () => ask(text))));
    knime.share();
    question.focus();
    await listen();
  }

  begin();
})();
