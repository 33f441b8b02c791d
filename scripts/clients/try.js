// The shell script `try` beside this file explains the program and runs it.
"use strict";
const assert = require("node:assert");
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const { Solver } = require("@2captcha/captcha-solver");
const capmonster = require("@zennolab_com/capmonstercloud-client");
const fixedHosts = require("./fixed.js");
const startService = require("./service.js");

const key = "0123456789abcdef0123456789abcdef";
const stranger = "f".repeat(32);
const headers = { Authorization: "Bearer " + key };
const config = (service, tls) => `
server: {keys: [{name: clients, key: ${key}, scopes: [token, solve, status, admin]}], tls: ${tls}}
providers: [{name: service, protocol: in_php, service: 2captcha, url: "${service}", key: k, first_poll: 100ms, poll_interval: 50ms}]
budget: {per_day: 1000}
solve: {owner: qa@example.com, pages: ["https://guests.example.com/*"], images: true, budget: {per_day: 100}}
defaults: {owner: qa@example.com, depth: 6}
targets:
  v2: {type: recaptcha_v2, sitekey: v2-key, pageurl: "https://e.example.com/v2"}
  v3: {type: recaptcha_v3, sitekey: v3-key, pageurl: "https://e.example.com/v3", action: login, min_score: 0.3}
  hc: {type: hcaptcha, sitekey: hc-key, pageurl: "https://e.example.com/hc"}
  ts: {type: turnstile, sitekey: ts-key, pageurl: "https://e.example.com/ts"}
  dry: {type: turnstile, sitekey: dry-key, pageurl: "https://e.example.com/dry", budget: {per_hour: 2}, depth: 2}
`;

let address;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const page = (name) => `https://e.example.com/${name}`;
const guests = "https://guests.example.com/";
const picture = Buffer.from("\x89PNG\r\n\x1a\nof a test", "latin1").toString("base64");

async function targets() {
  return (await (await fetch(address + "/status.json", { headers })).json()).targets;
}

async function until(what, is) {
  for (let i = 0; i < 300; i++) {
    try {
      if (await is()) return;
    } catch { /* it does not answer yet */ }
    await sleep(100);
  }
  throw new Error("waited in vain for " + what);
}

async function operate(method, path) {
  assert.strictEqual((await fetch(address + path, { method, headers })).status, 204, path);
}

// says prints the result of a call and compares it with the expected one.
async function says(client, what, want, call) {
  const got = await call().catch((err) => err.err || err.message || err); // an error code, or the message of Node
  console.log(`${client.padEnd(19)} ${what.padEnd(22)} ${got}`);
  assert(typeof want === "string" ? String(got).includes(want) : want(got), `${client}, ${what}: ${got}, want ${want}`);
}

// The client of 2captcha has no option for the address of the service. This class overrides the
// address, as docs/clients.md shows.
class Pooled extends Solver {
  get in() { return address + "/in.php"; }
  get res() { return address + "/res.php"; }
}

function twoCaptcha() {
  const solver = new Pooled(key, 200);
  const solve = (method, params) => async () => (await solver[method](params)).data;
  const v2 = { googlekey: "v2-key", pageurl: page("v2") };
  const ts = (sitekey, pageurl) => solve("cloudflareTurnstile", { sitekey, pageurl });
  const reported = (method) => async () => {
    const { id } = await solver.recaptcha(v2);
    return solver[method](id);
  };
  return {
    name: "2captcha",
    "recaptcha v2": solve("recaptcha", v2),
    "recaptcha v3": solve("recaptcha", { googlekey: "v3-key", pageurl: page("v3"), version: "v3", action: "login", min_score: 0.3 }),
    hcaptcha: solve("hcaptcha", { sitekey: "hc-key", pageurl: page("hc") }),
    turnstile: ts("ts-key", page("ts")),
    image: solve("imageCaptcha", { body: picture, numeric: 1 }),
    balance: () => solver.balance(),
    "good report": reported("goodReport"),
    "bad report": reported("badReport"),
    "wrong key": () => new Pooled(stranger, 200).recaptcha(v2),
    "unknown id": () => solver.pollResponse("12345678901"),
    "no target": solve("recaptcha", { ...v2, googlekey: "other" }),
    pingback: solve("recaptcha", { ...v2, pingback: page("p") }),
    unsolvable: ts("unsolvable", guests),
    dry: ts("dry-key", page("dry")),
  };
}

function capMonster() {
  const create = (clientKey) => capmonster.CapMonsterCloudClientFactory.Create(new capmonster.ClientOptions({ clientKey, serviceUrl: address }));
  const client = create(key);
  const solve = (Request, params, by = client) => async () => {
    const { error, solution } = await by.Solve(new Request(params));
    return error || solution.gRecaptchaResponse || solution.token || solution.text;
  };
  const ts = (websiteKey, websiteURL, by) => solve(capmonster.TurnstileRequest, { websiteKey, websiteURL }, by);
  return {
    name: "capmonster",
    "recaptcha v2": solve(capmonster.RecaptchaV2Request, { websiteURL: page("v2"), websiteKey: "v2-key" }),
    "recaptcha v3": solve(capmonster.RecaptchaV3ProxylessRequest, { websiteURL: page("v3"), websiteKey: "v3-key", pageAction: "login", minScore: 0.3 }),
    hcaptcha: solve(capmonster.HCaptchaRequest, { websiteURL: page("hc"), websiteKey: "hc-key" }),
    turnstile: ts("ts-key", page("ts")),
    image: solve(capmonster.ImageToTextRequest, { body: picture, recognizingThreshold: 65, Case: true, numeric: 0, math: false }),
    balance: async () => (await client.getBalance()).balance,
    "wrong key": ts("ts-key", page("ts"), create(stranger)),
    "unknown id": async () => (await client.GetTaskResult(12345678901)).error,
    "no target": ts("other", page("ts")),
    unsolvable: ts("unsolvable", guests),
    dry: ts("dry-key", page("dry")),
  };
}

const isToken = (got) => /^TOKEN\.\d+$/.test(got);
const isLeft = (got) => got > 800 && got < 1000;
// The expected result of each call. If the clients describe an error differently, there is one
// result for each client.
const wanted = {
  "recaptcha v2": isToken, "recaptcha v3": isToken, hcaptcha: isToken, turnstile: isToken,
  image: "text", balance: isLeft, "good report": "OK_REPORT_RECORDED", "bad report": "OK_REPORT_RECORDED",
  "wrong key": { "2captcha": "ERROR_KEY_DOES_NOT_EXIST", capmonster: "KEY_DOES_NOT_EXIST" },
  "unknown id": { "2captcha": "ERROR_WRONG_CAPTCHA_ID", capmonster: "NO_SUCH_CAPCHA_ID" },
  "no target": { "2captcha": "ERROR_DOMAIN_NOT_ALLOWED", capmonster: "DOMAIN_NOT_ALLOWED" },
  pingback: "ERROR_BAD_PARAMETERS",
  unsolvable: { "2captcha": "ERROR_CAPTCHA_UNSOLVABLE", capmonster: "CAPTCHA_UNSOLVABLE" },
};
const noSlot = { "2captcha": "ERROR_NO_SLOT_AVAILABLE", capmonster: "NO_SLOT_AVAILABLE" };

async function tryAll() {
  await until("full pools", async () => (await targets()).every((t) => t.fresh === t.depth));
  const clients = [twoCaptcha(), capMonster()];
  for (const client of clients) {
    for (const [what, want] of Object.entries(wanted)) {
      if (client[what]) await says(client.name, what, want[client.name] || want, client[what]);
    }
  }
  const hits = (await targets()).reduce((sum, t) => sum + t.hits, 0);
  assert.strictEqual(hits, 10, "not each token was in the pool at the first poll");

  for (const client of clients) { // each client takes the last token
    await says(client.name, "from a pool of two", isToken, client.dry);
  }
  await until("the budget to be used up", async () => (await targets()).find((t) => t.name === "dry").state === "budget");
  await sleep(500);
  for (const client of clients) {
    await says(client.name, "empty pool, no budget", noSlot[client.name], client.dry);
  }
  await operate("DELETE", "/pool/hc/tokens");
  await says("2captcha", "empty pool, refilled", isToken, clients[0].hcaptcha);
  await operate("POST", "/pool/ts/pause");
  await operate("DELETE", "/pool/ts/tokens");
  await until("the pause to be known", async () => (await targets()).some((t) => t.state === "paused"));
  await sleep(1500);
  for (const client of clients) {
    await says(client.name, "empty and paused pool", noSlot[client.name], client.turnstile);
  }
}

function freePort() {
  return new Promise((found) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => found(port));
    });
  });
}

// Tries the clients with a fixed host. poold listens at their port with a certificate for their
// names.
async function tryFixedHosts() {
  await until("full pools", async () => (await targets()).every((t) => t.fresh === t.depth));
  const refusal = "Received API error ERROR_DOMAIN_NOT_ALLOWED: no target of this key matches (first difference: pageurl)";
  const refused = {
    "2captcha-ts": ["ERROR_DOMAIN_NOT_ALLOWED", "ERROR_KEY_DOES_NOT_EXIST"],
    "captcha-solver": ["ERROR_DOMAIN_NOT_ALLOWED", "ERROR_KEY_DOES_NOT_EXIST"],
    anticaptchaofficial: [refusal, "ERROR_KEY_DOES_NOT_EXIST: the configuration file has no such key"],
  };
  await Promise.all(fixedHosts(key, stranger, page, picture).map(async (client) => {
    const { "wrong key": wrongKey, name, ...others } = client;
    const calls = Object.entries(others).map(([what, call]) => says(name, what, what === "no target" ? refused[name][0] : wanted[what], call));
    await Promise.all(calls);
    if (wrongKey) await says(name, "wrong key", refused[name][1], wrongKey);
  }));
  for (const line of fs.readFileSync("log", "utf8").split("\n")) {
    if (/call refused/.test(line)) console.log(line);
  }
}

// Runs clients against a new poold.
async function against(listen, tls, clients) {
  fs.writeFileSync("pools.yaml", config(await startService(), tls));
  address = tls === "{}" ? "http://" + listen : "https://2captcha.com";
  const poold = spawn("./poold", ["serve", "--listen", listen], { stdio: ["ignore", "inherit", fs.openSync("log", "w")] });
  const ended = new Promise((done) => poold.on("exit", done));
  try {
    await clients();
  } catch (err) {
    console.error(fs.readFileSync("log", "utf8").split("\n").slice(-20).join("\n"));
    throw err;
  } finally {
    poold.kill();
    await ended;
  }
}

async function main() {
  await against("127.0.0.1:" + await freePort(), "{}", tryAll);
  await against("127.0.0.1:443", "{cert: poold.crt, key: poold.key}", tryFixedHosts);
}

main().catch((err) => {
  console.error(err);
  process.exitCode = 1;
});
