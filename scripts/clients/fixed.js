// These clients have a host that is fixed in their code. They run with their default options, and
// reach poold by the names of the services.
"use strict";
const anticaptcha = require("@antiadmin/anticaptchaofficial");
const { Solver } = require("@2captcha/captcha-solver");
const older = require("2captcha-ts");
const captcha = require("2captcha");
const { AntiCaptcha, TaskTypes } = require("anticaptcha");
const Infosimples = require("@infosimples/node_two_captcha");
const RuCaptcha = require("rucaptcha-2captcha").default;
const { BuiltinSolutionProviders } = require("puppeteer-extra-plugin-recaptcha");

function twoCaptcha(name, Client, key, stranger, page, picture) {
  const solver = new Client(key);
  const solve = (method, params) => async () => (await solver[method](params)).data;
  return {
    name,
    "recaptcha v2": solve("recaptcha", { googlekey: "v2-key", pageurl: page("v2") }),
    "recaptcha v3": solve("recaptcha", { googlekey: "v3-key", pageurl: page("v3"), version: "v3", action: "login", min_score: 0.3 }),
    hcaptcha: solve("hcaptcha", { sitekey: "hc-key", pageurl: page("hc") }),
    turnstile: solve("cloudflareTurnstile", { sitekey: "ts-key", pageurl: page("ts") }),
    image: solve("imageCaptcha", { body: picture }),
    balance: () => solver.balance(),
    "good report": async () => solver.goodReport((await solver.recaptcha({ googlekey: "v2-key", pageurl: page("v2") })).id),
    "no target": solve("cloudflareTurnstile", { sitekey: "ts-key", pageurl: page("ts") + "/" }),
    "wrong key": () => new Client(stranger).recaptcha({ googlekey: "v2-key", pageurl: page("v2") }),
  };
}

function antiCaptcha(key, stranger, page, picture) {
  anticaptcha.setAPIKey(key);
  const withKey = (other, call) => async () => {
    anticaptcha.setAPIKey(other);
    try {
      return await call();
    } finally {
      anticaptcha.setAPIKey(key);
    }
  };
  // The client prints the errorDescription of a refusal and throws its code.
  const printed = (call) => async () => {
    const print = console.error;
    let text = "";
    console.error = (line) => { text += line; };
    try {
      return await call();
    } catch (code) {
      return text;
    } finally {
      console.error = print;
    }
  };
  return {
    name: "anticaptchaofficial",
    "recaptcha v2": () => anticaptcha.solveRecaptchaV2Proxyless(page("v2"), "v2-key"),
    "recaptcha v3": () => anticaptcha.solveRecaptchaV3(page("v3"), "v3-key", 0.3, "login"),
    hcaptcha: () => anticaptcha.solveHCaptchaProxyless(page("hc"), "hc-key"),
    turnstile: () => anticaptcha.solveTurnstileProxyless(page("ts"), "ts-key"),
    image: () => anticaptcha.solveImage(picture),
    balance: () => anticaptcha.getBalance(),
    "no target": printed(() => anticaptcha.solveTurnstileProxyless(page("ts") + "/", "ts-key")),
    "wrong key": printed(withKey(stranger, () => anticaptcha.getBalance())),
  };
}

// The main call of further clients.
function others(key, page) {
  const client = (name, call) => ({ name, "recaptcha v2": call });
  const [googlekey, pageurl] = ["v2-key", page("v2")];
  return [
    client("2captcha", async () => (await new captcha.Solver(key).recaptcha(googlekey, pageurl)).data),
    client("anticaptcha", async () => {
      const anti = new AntiCaptcha(key);
      const id = await anti.createTask({ type: TaskTypes.NOCAPTCHA_PROXYLESS, websiteURL: pageurl, websiteKey: googlekey });
      return (await anti.getTaskResult(id)).solution.gRecaptchaResponse;
    }),
    client("node_two_captcha", async () => (await new Infosimples(key, { throwErrors: true }).decodeRecaptchaV2({ googlekey, pageurl })).text),
    client("rucaptcha-2captcha", async () => {
      const solver = new RuCaptcha(key, 2);
      return solver.get(await solver.send({ method: "userrecaptcha", googlekey, pageurl }));
    }),
    client("puppeteer-extra", async () => {
      const { solutions } = await BuiltinSolutionProviders[0].fn([{ _vendor: "recaptcha", id: "1", sitekey: googlekey, url: pageurl }], key);
      return solutions[0].error || solutions[0].text;
    }),
  ];
}

// Returns the clients. Removes from the output the lines in which anticaptchaofficial says that it
// waits.
module.exports = (key, stranger, page, picture) => {
  console.log = ((print) => (line) => /task with ID|waiting|not yet ready/.test(line) || print(line))(console.log);
  return [
    twoCaptcha("2captcha-ts", older.Solver, key, stranger, page, picture),
    twoCaptcha("captcha-solver", Solver, key, stranger, page, picture),
    antiCaptcha(key, stranger, page, picture),
    ...others(key, page),
  ];
};
