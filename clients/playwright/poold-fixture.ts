// A Playwright fixture that fills the CAPTCHA of a page with a token of poold. Copy it beside your
// tests. POOLD_URL and POOLD_KEY in the environment name the daemon and a key with the scope token.
import { test as base, type Frame, type Page } from "@playwright/test";
import { randomUUID } from "node:crypto";

export { expect } from "@playwright/test";

const url = (process.env.POOLD_URL || "http://127.0.0.1:8080").replace(/\/$/, "");

// Sends a request. A server that sends nothing for 10 s, and the wait of a take, counts as lost.
async function send(path: string, headers: Record<string, string>, body?: object, wait = 0): Promise<Response> {
  if (process.env.POOLD_KEY) headers.Authorization = `Bearer ${process.env.POOLD_KEY}`;
  const method = body ? "POST" : "GET";
  const signal = AbortSignal.timeout((wait + 10) * 1000);
  return fetch(url + path, { method, headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body), signal });
}

// A refusal, or no answer. docs/operating.md lists the codes.
export class PooldError extends Error {
  code = ""; // "" = no answer, or one of a proxy
  status = 0; // of HTTP; 0 = no answer
  retry_after = 0; // seconds; 0 = a repetition does not help
}

async function refusal(answer: Response): Promise<PooldError> {
  const text = await answer.text();
  let problem = { code: "", detail: text };
  try {
    problem = { ...problem, ...JSON.parse(text) };
  } catch {} // of a proxy
  const error = new PooldError(`poold at ${url}: ${problem.code || answer.status}: ${problem.detail}`);
  const isLost = answer.status === 502 || answer.status === 504; // of a proxy
  return Object.assign(error, {
    code: problem.code, status: answer.status, retry_after: isLost ? 1 : Number(answer.headers.get("Retry-After")) || 0,
  });
}

// Calls `attempt` until it succeeds, or until a further attempt would not help or come after `seconds`,
// or 15 in a row had no answer. `attempt` gets the seconds for which poold may wait.
async function repeat(seconds: number, attempt: (wait: number) => Promise<Response>): Promise<Response> {
  const end = Date.now() + seconds * 1000;
  for (let lost = 1; ; lost++) {
    const wait = Math.max(0, Math.min(20, Math.floor((end - Date.now()) / 1000) - 1));
    const answer = await attempt(wait).catch((cause) => cause as Error);
    if (answer instanceof Response && answer.ok) return answer;
    const error = answer instanceof Response ? await refusal(answer)
      : Object.assign(new PooldError(`poold at ${url} does not answer; is it running, and POOLD_URL right?`, { cause: answer }), { retry_after: 1 });
    if (error.status) lost = 0;
    if (!error.retry_after || lost === 15 || Date.now() + error.retry_after * 1000 > end) throw error;
    await new Promise((done) => setTimeout(done, error.retry_after * 1000));
  }
}

export class Token {
  readonly id!: string;
  readonly target!: string;
  readonly type!: string;
  readonly token!: string;
  readonly user_agent?: string;
  readonly extra?: Record<string, string>; // such as respKey of hCaptcha
  readonly expires_at!: string;

  // Takes a token. While there is none, or no answer comes, it tries again for `seconds`. The
  // Idempotency-Key stays the same, so that a lost answer costs no token.
  static async take(target: string, seconds = 60): Promise<Token> {
    const headers = { "Idempotency-Key": randomUUID() };
    const path = `/pool/${encodeURIComponent(target)}/token?wait=`;
    const answer = await repeat(seconds, (wait) => send(path + wait, headers, undefined, wait));
    return Object.assign(new Token(), await answer.json());
  }

  // Tells poold and the service whether the site accepted the token. Tries again for some seconds; equal
  // reports count once.
  async report(outcome: "accepted" | "rejected"): Promise<void> {
    await repeat(15, () => send(`/pool/${encodeURIComponent(this.target)}/token/${this.id}/report`, {}, { outcome }));
  }
}

// Puts a token where a widget of its type would put it: into its fields, and to the function that its
// data-callback names. For reCAPTCHA v3 the page gets it from grecaptcha.execute. Without a token it
// changes nothing. Returns the widgets that it found; "" = none.
function put({ type, token }: { type?: string; token?: string }): string {
  const window = globalThis as any;
  const found = new Set<string>();
  for (const [widget, types, fields] of [
    ["g-recaptcha", "recaptcha_v2 recaptcha_v3", "[name=g-recaptcha-response]:not(.h-captcha *)"],
    ["h-captcha", "hcaptcha", "[name=h-captcha-response], .h-captcha [name=g-recaptcha-response]"], // it makes both
    ["cf-turnstile", "turnstile", "[name=cf-turnstile-response]"],
  ] as const) {
    if (type && !(types as string).split(" ").includes(type)) continue;
    if (widget === "g-recaptcha" && window.grecaptcha?.execute && type !== "recaptcha_v2") {
      found.add(widget);
      for (const api of [window.grecaptcha, window.grecaptcha.enterprise]) {
        if (api && token) api.execute = async () => token;
      }
    }
    for (const field of document.querySelectorAll<HTMLInputElement>(fields)) {
      found.add(widget);
      if (token) field.value = token;
    }
    for (const element of document.querySelectorAll<HTMLElement>(`.${widget}[data-callback]`)) {
      found.add(widget);
      if (token) element.dataset.callback!.split(".").reduce((owner, name) => owner?.[name], window)?.(token);
    }
  }
  return [...found].join(", ");
}

export const test = base.extend<{ poold: { fill(page: Page | Frame, target: string): Promise<Token> } }>({
  poold: async ({}, use, info) => {
    await use({
      // Waits for a widget, for half the time of the test at most, and takes a token only then.
      async fill(page, target) {
        const found = await page.waitForFunction(put, {}, { timeout: info.timeout / 2 }).catch((cause) => {
          throw new Error("poold: the page has no field of a token and no data-callback; did the vendor's script load?", { cause });
        });
        const token = await Token.take(target, info.timeout ? Math.min(60, (info.timeout / 1000) * 0.8) : 60);
        if (await page.evaluate(put, { type: token.type, token: token.token })) return token;
        throw new Error(`poold: the page has ${await found.jsonValue()}, and ${target} is of the type ${token.type}`);
      },
    });
  },
});
