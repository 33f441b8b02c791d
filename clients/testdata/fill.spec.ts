// TestPlaywright runs these tests with the URL of its server in POOLD_URL.
import { test, expect, Token } from "./poold-fixture";

const url = process.env.POOLD_URL;

test("fill fills the fields and calls the callback of the token's type only", async ({ page, poold }) => {
  for (const [type, filled] of Object.entries({
    recaptcha_v2: ["g-recaptcha-response", "data-callback of g-recaptcha"],
    recaptcha_v3: ["g-recaptcha-response", "data-callback of g-recaptcha", "execute"],
    hcaptcha: ["h-captcha-response", "g-recaptcha-response of h-captcha", "data-callback of h-captcha"],
    turnstile: ["cf-turnstile-response", "data-callback of cf-turnstile"],
  })) {
    await page.goto(`${url}/page/g-recaptcha,h-captcha,cf-turnstile`);
    const token = await poold.fill(page, type);
    expect(await page.evaluate("filled()"), type).toEqual(filled.map((what) => `${what}: ${token.token}`).sort());
  }
});

test("an error names the widgets of the page and the type of the target", async ({ page, poold }) => {
  await page.goto(`${url}/page/h-captcha`);
  await expect(poold.fill(page, "recaptcha_v2")).rejects.toThrow(
    "the page has h-captcha, and recaptcha_v2 is of the type recaptcha_v2");
});

test("an error has its code", async () => {
  await expect(Token.take("paused")).rejects.toMatchObject({
    message: `poold at ${url}: paused: the file pauses it`, code: "paused", status: 503, retry_after: 300,
  });
});

test("a report whose answer is lost is repeated", async () => {
  await (await Token.take("turnstile")).report("accepted");
});
