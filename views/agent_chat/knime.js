// How the page reaches its service: through KNIME, which shows the page in a frame, or at the server that the
// page came from. In KNIME the frame may not open windows, send forms or ask questions of its own.
"use strict";

const knime = (() => {
  const inFrame = window.parent !== window;
  const waiting = new Map();
  let config = null;
  let number = 0;

  window.addEventListener("message", (event) => {
    const answer = event.data;
    if (event.source !== window.parent || answer?.type !== "UIExtensionResponse") return;
    waiting.get(answer.requestId)?.(answer.payload);
    waiting.delete(answer.requestId);
  });

  function callFrame(method, ...params) {
    const requestId = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    return new Promise((resolve) => {
      waiting.set(requestId, resolve);
      window.parent.postMessage({ type: "UIExtensionRequest", requestId, payload: { method, params } }, "*");
    });
  }

  async function connected() {
    if (!config) {
      config = await callFrame("getConfig");
      window.parent.postMessage({ type: "UIExtensionReady" }, "*");
    }
    return config;
  }

  async function callService(serviceType, dataServiceRequest) {
    const { extensionType, nodeId, projectId, workflowId } = await connected();
    const place = { extensionType, nodeId, projectId, workflowId };
    const answer = await callFrame("callNodeDataService", { serviceType, dataServiceRequest, ...place });
    return typeof answer === "string" && answer ? JSON.parse(answer) : answer;
  }

  async function call(method, ...params) {
    const request = JSON.stringify({ jsonrpc: "2.0", method, params, id: ++number });
    let answer;
    if (inFrame) {
      const { result } = (await callService("data", request)) ?? {};
      answer = typeof result === "string" ? JSON.parse(result) : result;
    } else {
      const headers = { "content-type": "application/json" };
      answer = await (await fetch("./rpc", { method: "POST", headers, body: request })).json();
    }
    if (!answer) throw new Error("KNIME gave no answer. Close the view and open it again.");
    if (answer.error) throw new Error(answer.error.message);
    return answer.result;
  }

  // Executes the node again, which takes over what was said. The frame's own data may not be missing.
  async function handOn() {
    const answer = await callService("apply_data", "{}");
    const result = typeof answer?.result === "string" ? JSON.parse(answer.result) : answer?.result;
    if (!result?.isApplied) throw new Error(result?.error ?? "KNIME did not execute the node again.");
  }

  // In a component, KNIME executes the node again when somebody goes on to the next page.
  function share() {
    if (inFrame) callFrame("publishData", {});
  }

  return { call, handOn, share, inFrame };
})();
