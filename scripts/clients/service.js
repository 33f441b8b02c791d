// A solving service that solves every CAPTCHA at once, except CAPTCHAs with the sitekey
// "unsolvable".
"use strict";
const http = require("node:http");

function answer(tasks, path, fields) {
  if (path === "/in.php") return [1, String(tasks.push(fields))];
  if (fields.get("action") !== "get") return [1, "OK_REPORT_RECORDED"];
  const task = tasks[fields.get("id") - 1];
  if (task.get("sitekey") === "unsolvable") return [0, "ERROR_CAPTCHA_UNSOLVABLE"];
  return [1, task.get("method") === "base64" ? "text" : "TOKEN." + fields.get("id")];
}

// Starts the service and resolves to its address.
module.exports = () => new Promise((started) => {
  const tasks = [];
  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => { body += chunk; });
    request.on("end", () => {
      const [status, said] = answer(tasks, request.url, new URLSearchParams(body));
      response.end(JSON.stringify({ status, request: said }));
    });
  });
  server.listen(0, "127.0.0.1", () => started("http://127.0.0.1:" + server.address().port));
  server.unref();
});
