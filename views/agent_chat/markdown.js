// Markdown as models write it, made into elements. Whatever a text says, it becomes text: no markup of it is
// ever parsed, and links go to the web only.
"use strict";

const markdown = (() => {
  const INLINE = /(`+)(.+?)\1(?!`)|\*\*(.+?)\*\*|\*(?![\s*])([^*]+?)\*|\[([^\]]*)\]\(([^()\s]*)\)/s;

  function element(name, ...children) {
    const made = document.createElement(name);
    made.append(...children);
    return made;
  }

  function inline(text) {
    const parts = [];
    for (let rest = text; rest; ) {
      const found = INLINE.exec(rest);
      if (!found) {
        parts.push(rest);
        break;
      }
      if (found.index) parts.push(rest.slice(0, found.index));
      parts.push(marked(found));
      rest = rest.slice(found.index + found[0].length);
    }
    return parts;
  }

  function marked([whole, , code, bold, slanted, label, target]) {
    if (code !== undefined) return element("code", code);
    if (bold !== undefined) return element("strong", ...inline(bold));
    if (slanted !== undefined) return element("em", ...inline(slanted));
    if (!/^https?:\/\//i.test(target)) return whole;
    const link = element("a", label || target);
    link.href = target;
    link.title = target; // where it goes, whatever its label says
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    return link;
  }

  function cells(line) {
    return line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
  }

  function table(lines) {
    const [head, , ...rows] = lines;
    const made = element("table", element("thead", row(head, "th")), element("tbody"));
    made.lastChild.append(...rows.map((line) => row(line, "td")));
    return made;
  }

  function row(line, kind) {
    return element("tr", ...cells(line).map((cell) => element(kind, ...inline(cell))));
  }

  function list(lines, kind) {
    return element(kind, ...lines.map((line) => element("li", ...inline(line.replace(/^\s*([-*+]|\d+[.)])\s+/, "")))));
  }

  // The blocks: how their lines look, and what is made of them. The first that fits is taken.
  const BLOCKS = [
    [/^#{1,6}\s/, (lines) => lines.map((line) => element("h3", ...inline(line.replace(/^#+\s+/, ""))))],
    [/^\s*[-*+]\s+\S/, (lines) => [list(lines, "ul")]],
    [/^\s*\d+[.)]\s+\S/, (lines) => [list(lines, "ol")]],
    [/^\s*>/, (lines) => [element("blockquote", ...inline(lines.map((l) => l.replace(/^\s*>\s?/, "")).join("\n")))]],
    [/^\s*\|/, (lines) => [/^[\s|:-]+$/.test(lines[1] ?? "") ? table(lines) : element("p", lines.join("\n"))]],
  ];

  function blocks(text) {
    const made = [];
    const lines = text.split("\n");
    while (lines.length) {
      const line = lines[0];
      const fence = /^\s*(```+|~~~+)/.exec(line);
      if (fence) {
        lines.shift();
        const end = lines.findIndex((other) => other.trim().startsWith(fence[1]));
        made.push(element("pre", element("code", lines.splice(0, end < 0 ? lines.length : end).join("\n"))));
        lines.shift();
      } else if (!line.trim()) {
        lines.shift();
      } else {
        const [look, make] = BLOCKS.find(([pattern]) => pattern.test(line)) ?? [null, null];
        const belongs = look
          ? (other) => look.test(other)
          : (other) => other.trim() && !/^\s*(```|~~~)/.test(other) && !BLOCKS.some(([pattern]) => pattern.test(other));
        let count = 1;
        while (count < lines.length && belongs(lines[count])) count++;
        const taken = lines.splice(0, count);
        made.push(...(make ? make(taken) : [element("p", ...inline(taken.join("\n")))]));
      }
    }
    return made;
  }

  return { blocks };
})();
