// A Playwright fixture that fills the CAPTCHA of a page with a token of poold. Copy it beside your
// tests. POOLD_URL and POOLD_KEY in the environment name the daemon and a key with the scope token.
import { test as base, type Page } from "@playwright/test";
import { randomUUID } from "node:crypto";

export { expect } from "@playwright/test";

const url = process.env.POOLD_URL || "http://127.0.0.1:8080";
const key = process.env.POOLD_KEY;

async function send(path: string, headers: Record<string, string>, body?: object): Promise<Response> {
  if (key) headers.Authorization = `Bearer ${key}`;
  const method = body ? "POST" : "GET";
  return fetch(url + path, { method, headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) });
}

async function refusal(answer: Response): Promise<Error> {
  return new Error(`poold: ${answer.status}: ${await answer.text()}`);
}

export class Token {
  constructor(readonly id: string, readonly target: string, readonly type: string, readonly token: string,
    readonly user_agent?: string, readonly expires_at?: string) {}

  // Takes a token. While there is none, it tries again for `seconds`. The Idempotency-Key stays the
  // same, so that a lost answer costs no token.
  static async take(target: string, seconds = 60): Promise<Token> {
    const end = Date.now() + seconds * 1000;
    const headers = { "Idempotency-Key": randomUUID() };
    for (;;) {
      const answer = await send(`/pool/${encodeURIComponent(target)}/token?wait=20s`, headers);
      if (answer.ok) return Object.assign(Object.create(Token.prototype), await answer.json());
      const pause = Number(answer.headers.get("Retry-After")) * 1000;
      if (!pause || Date.now() + pause > end) throw await refusal(answer);
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  // Tells poold and the service whether the site accepted the token.
  async report(outcome: "accepted" | "rejected"): Promise<void> {
    const answer = await send(`/pool/${encodeURIComponent(this.target)}/token/${this.id}/report`, {}, { outcome });
    if (!answer.ok) throw await refusal(answer);
  }
}

// Puts the token where the widget would put it: into its fields, and to the function that its
// data-callback names. For reCAPTCHA v3 the page gets it from grecaptcha.execute.
function put({ type, token }: { type: string; token: string }): boolean {
  const window = globalThis as any;
  let done = false;
  if (type === "recaptcha_v3" && window.grecaptcha) {
    for (const api of [window.grecaptcha, window.grecaptcha.enterprise]) if (api) api.execute = async () => token;
    done = true;
  }
  for (const field of document.querySelectorAll<HTMLInputElement>(
    "[name=g-recaptcha-response], [name=h-captcha-response], [name=cf-turnstile-response]")) {
    field.value = token;
    done = true;
  }
  for (const widget of document.querySelectorAll<HTMLElement>("[data-sitekey][data-callback]")) {
    window[widget.dataset.callback!](token);
    done = true;
  }
  return done;
}

export const test = base.extend<{ poold: { fill(page: Page, target: string): Promise<Token> } }>({
  poold: async ({}, use) => {
    await use({
      async fill(page, target) {
        const token = await Token.take(target);
        if (!(await page.evaluate(put, { type: token.type, token: token.token }))) throw new Error("poold: the page has no CAPTCHA");
        return token;
      },
    });
  },
});
