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

async function refusal(answer: Response): Promise<Error> {
  const text = await answer.text();
  try {
    const { code, detail, title } = JSON.parse(text);
    return new Error(`poold at ${url}: ${code}: ${detail || title}`);
  } catch {
    return new Error(`poold at ${url}: ${answer.status}: ${text}`); // of a proxy
  }
}

export class Token {
  readonly id!: string;
  readonly target!: string;
  readonly type!: string;
  readonly token!: string;
  readonly user_agent?: string;
  readonly expires_at!: string;

  // Takes a token. While there is none, or no answer comes, it tries again for `seconds`. The
  // Idempotency-Key stays the same, so that a lost answer costs no token.
  static async take(target: string, seconds = 60): Promise<Token> {
    const end = Date.now() + seconds * 1000;
    const headers = { "Idempotency-Key": randomUUID() };
    for (;;) {
      const wait = Math.max(0, Math.min(20, Math.floor((end - Date.now()) / 1000) - 1));
      const path = `/pool/${encodeURIComponent(target)}/token?wait=${wait}`;
      const answer = await send(path, headers, undefined, wait).catch((cause) => cause as Error);
      if (answer instanceof Response && answer.ok) return Object.assign(new Token(), await answer.json());
      const problem = answer instanceof Response ? await refusal(answer) : new Error(`poold at ${url} does not answer`, { cause: answer });
      const isLost = !(answer instanceof Response) || answer.status === 502 || answer.status === 504; // the last two are of a proxy
      const pause = isLost ? 1000 : Number(answer.headers.get("Retry-After")) * 1000;
      if (!pause || Date.now() + pause > end) throw problem;
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  // Tells poold and the service whether the site accepted the token.
  async report(outcome: "accepted" | "rejected"): Promise<void> {
    const answer = await send(`/pool/${encodeURIComponent(this.target)}/token/${this.id}/report`, {}, { outcome });
    if (!answer.ok) throw await refusal(answer);
  }
}

// Puts a token where the widget would put it: into its fields, and to the function that its
// data-callback names. For reCAPTCHA v3 the page gets it from grecaptcha.execute. Without a token it
// tells whether the page has one of these.
function put({ type, token }: { type?: string; token?: string }): boolean {
  const window = globalThis as any;
  let found = false;
  if (window.grecaptcha?.execute && (!type || type === "recaptcha_v3")) {
    found = true;
    for (const api of [window.grecaptcha, window.grecaptcha.enterprise]) if (api && token) api.execute = async () => token;
  }
  for (const field of document.querySelectorAll<HTMLInputElement>(
    "[name=g-recaptcha-response], [name=h-captcha-response], [name=cf-turnstile-response]")) {
    found = true;
    if (token) field.value = token;
  }
  for (const widget of document.querySelectorAll<HTMLElement>("[data-sitekey][data-callback]")) {
    found = true;
    if (token) widget.dataset.callback!.split(".").reduce((owner, name) => owner?.[name], window)?.(token);
  }
  return found;
}

export const test = base.extend<{ poold: { fill(page: Page | Frame, target: string): Promise<Token> } }>({
  poold: async ({}, use, info) => {
    await use({
      // Waits for the widget, for half the time of the test at most, and takes a token only then.
      async fill(page, target) {
        await page.waitForFunction(put, {}, { timeout: info.timeout / 2 }).catch((cause) => {
          throw new Error("poold: the page has no field of a token and no data-callback; did the vendor's script load?", { cause });
        });
        const token = await Token.take(target, info.timeout ? Math.min(60, (info.timeout / 1000) * 0.8) : 60);
        if (await page.evaluate(put, { type: token.type, token: token.token })) return token;
        throw new Error(`poold: the page has no widget for ${target}, whose type is ${token.type}`);
      },
    });
  },
});
