// These clients have a host that is fixed in their code. They run with their default options, and
// reach poold by the names of the services.
"use strict";
const anticaptcha = require("@antiadmin/anticaptchaofficial");
const { Solver } = require("@2captcha/captcha-solver");
const older = require("2captcha-ts");

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

// Returns the clients. Removes from the output the lines in which anticaptchaofficial says that it
// waits.
module.exports = (key, stranger, page, picture) => {
  console.log = ((print) => (line) => /task with ID|waiting|not yet ready/.test(line) || print(line))(console.log);
  return [
    twoCaptcha("2captcha-ts", older.Solver, key, stranger, page, picture),
    twoCaptcha("captcha-solver", Solver, key, stranger, page, picture),
    antiCaptcha(key, stranger, page, picture),
  ];
};
