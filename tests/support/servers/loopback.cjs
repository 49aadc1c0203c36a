// Preloaded into a Node server that would listen on every interface: it listens on loopback, says where, and
// ends with the process that started it.
const net = require("node:net");

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  this.once("listening", () => console.log(`listening on 127.0.0.1:${this.address().port}`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ...rest.filter((value) => typeof value === "function"));
};
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
