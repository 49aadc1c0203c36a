// What the libraries expect around them: Node's names, as they are no browser's.
"use strict";
var global = globalThis, console = { log() {} };
global.Buffer = {
  from: function (text, encoding) {
    if (encoding === "binary") return { toString: () => btoa(text) };
    const digits = text.replace(/=[^]*/, "").replace(/-/g, "+").replace(/_/g, "/");
    return { toString: () => atob(digits.replace(/[^A-Za-z0-9+/]/g, "")) };
  },
};
