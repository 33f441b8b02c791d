// See the script beside this one.
"use strict";
const assert = require("node:assert");
const { Solver } = require("@2captcha/captcha-solver");
const capmonster = require("@zennolab_com/capmonstercloud-client");

const address = "http://" + process.env.POOLD_ADDRESS;
const key = process.env.POOLD_KEY;
const headers = { Authorization: "Bearer " + key };

// What docs/clients.md says: the client of 2captcha has no option for its address.
class Pooled extends Solver {
  get in() { return address + "/in.php"; }
  get res() { return address + "/res.php"; }
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function targets() {
  return (await (await fetch(address + "/status.json", { headers })).json()).targets;
}

async function until(what, is) {
  for (let i = 0; i < 600; i++) {
    try {
      if (await is()) return;
    } catch { /* it does not answer yet */ }
    await sleep(500);
  }
  throw new Error("waited in vain for " + what);
}

async function fails(what, code, call) {
  let failed;
  try {
    await call();
  } catch (err) {
    failed = String(err && err.message || err) + JSON.stringify(err);
  }
  assert(failed && failed.includes(code), `${what}: ${failed}, want ${code}`);
}

const page = (name) => `https://e.example.com/${name}`;
const picture = Buffer.from("\x89PNG\r\n\x1a\nof a test", "latin1").toString("base64");

async function twoCaptcha() {
  const solver = new Pooled(key, 200);
  const solved = [
    await solver.recaptcha({ googlekey: "v2-key", pageurl: page("v2") }),
    await solver.recaptcha({ googlekey: "v3-key", pageurl: page("v3"), version: "v3", action: "login", min_score: 0.3 }),
    await solver.hcaptcha({ sitekey: "hc-key", pageurl: page("hc") }),
    await solver.cloudflareTurnstile({ sitekey: "ts-key", pageurl: page("ts") }),
  ];
  for (const answer of solved) assert(answer.data.startsWith("SIMULATED."), JSON.stringify(answer));
  assert.strictEqual(await solver.goodReport(solved[0].id), "OK_REPORT_RECORDED");
  assert.strictEqual(await solver.badReport(solved[1].id), "OK_REPORT_RECORDED");
  const balance = await solver.balance();
  assert(balance > 0 && balance < 1000, String(balance));
  assert((await solver.imageCaptcha({ body: picture, numeric: 1 })).data.length > 0);
  await fails("a wrong key", "ERROR_KEY_DOES_NOT_EXIST", () => new Pooled("f".repeat(32), 200).recaptcha({ googlekey: "v2-key", pageurl: page("v2") }));
  await fails("an unknown id", "ERROR_WRONG_CAPTCHA_ID", () => solver.pollResponse("12345678901"));
  await fails("what no target has", "ERROR_DOMAIN_NOT_ALLOWED", () => solver.recaptcha({ googlekey: "other", pageurl: page("v2") }));
  await fails("a pingback", "ERROR_BAD_PARAMETERS", () => solver.recaptcha({ googlekey: "v2-key", pageurl: page("v2"), pingback: "https://e.example.com/" }));
  return solver;
}

async function capMonster() {
  const options = { clientKey: key, serviceUrl: address };
  const client = capmonster.CapMonsterCloudClientFactory.Create(new capmonster.ClientOptions(options));
  for (const [name, request] of Object.entries({
    v2: new capmonster.RecaptchaV2Request({ websiteURL: page("v2"), websiteKey: "v2-key" }),
    v3: new capmonster.RecaptchaV3ProxylessRequest({ websiteURL: page("v3"), websiteKey: "v3-key", pageAction: "login", minScore: 0.3 }),
    hc: new capmonster.HCaptchaRequest({ websiteURL: page("hc"), websiteKey: "hc-key" }),
    ts: new capmonster.TurnstileRequest({ websiteURL: page("ts"), websiteKey: "ts-key" }),
  })) {
    const { error, solution } = await client.Solve(request);
    const token = solution && (solution.gRecaptchaResponse || solution.token);
    assert(!error && token.startsWith("SIMULATED."), `${name}: ${error} ${JSON.stringify(solution)}`);
  }
  const { balance } = await client.getBalance();
  assert(balance > 0 && balance < 1000, String(balance));
  const wrong = capmonster.CapMonsterCloudClientFactory.Create(new capmonster.ClientOptions({ ...options, clientKey: "f".repeat(32) }));
  const refused = async (client, request) => (await client.Solve(request).catch((err) => ({ error: err.type || err.message }))).error;
  assert.strictEqual(await refused(wrong, new capmonster.TurnstileRequest({ websiteURL: page("ts"), websiteKey: "ts-key" })), "KEY_DOES_NOT_EXIST");
  return { client, refused };
}

async function main() {
  await until("full pools", async () => (await targets()).every((t) => t.fresh === t.depth));
  const solver = await twoCaptcha();
  const { client, refused } = await capMonster();
  await until("the status to show that each was in the pool at the first poll", async () =>
    (await targets()).every((t) => t.requests === 2 && t.hits === 2));
  for (const [method, path] of [["POST", "pause"], ["DELETE", "tokens"]]) {
    assert.strictEqual((await fetch(`${address}/pool/ts/${path}`, { method, headers })).status, 204);
  }
  await until("the pause to be known", async () => (await targets()).some((t) => t.state === "paused"));
  await sleep(1500);
  await fails("a paused pool", "ERROR_NO_SLOT_AVAILABLE", () => solver.cloudflareTurnstile({ sitekey: "ts-key", pageurl: page("ts") }));
  assert.strictEqual(await refused(client, new capmonster.TurnstileRequest({ websiteURL: page("ts"), websiteKey: "ts-key" })), "NO_SLOT_AVAILABLE");
  console.log("both clients get what they ask for");
}

main().catch((err) => {
  console.error(err);
  process.exitCode = 1;
});
