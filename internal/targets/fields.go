package targets

import (
	"slices"
	"time"

	"poold/internal/captcha"
)

// A field is one key of a section. The tables below are all that is known of a
// key by itself: the reader, the defaults and the schema come from them. What keys
// must be together is checked afterwards, beside the code that needs it.
type field struct {
	key    string
	kind   kind
	preset any            // the value where the file has none, as kind reads it; nil = none, or the zero value
	must   bool           // the section is faulty without it; with only, one of these types is
	only   []captcha.Type // the types of CAPTCHA that it belongs to; nil = all
	doc    string         // one line for people who write the file; editors show it
}

const (
	longest      = 24 * time.Hour // of all durations but those of history
	shortestPoll = 50 * time.Millisecond

	// maxBudget is far above what any account solves, so that a digit too many is
	// noticed.
	maxBudget = 1_000_000

	maxPrice = 1e6 // per 1000 solves

	// leastBodyBudget has room for two of the largest bodies.
	leastBodyBudget = 4 << 20
)

// pools is the whole file.
var pools = section{fields: []field{
	{key: "server", kind: server, doc: "Where the daemon listens, and who may call it."},
	{key: "redis", kind: redis, doc: "Where tokens wait. All of it needs a restart."},
	{key: "providers", kind: list{item: provider, named: true},
		doc: "The solving services, in the order in which they are tried. One whose key is empty is left out. Without any, and with the embedded Redis, a simulated one serves."},
	{key: "budget", kind: totalBudget, doc: "The most solves that are bought over all targets, and by POST /solve."},
	{key: "dead_letters", kind: deadLetters, doc: "Callbacks that came while Redis was away. Needs a restart."},
	{key: "solve", kind: solve, doc: "What POST /solve may buy beyond the targets' identities. Without this section: nothing."},
	{key: "dedup", kind: dedup, doc: "Where callers of POST /solve that ask for `dedup: identity` find each other. Needs a restart."},
	{key: "history", kind: history, doc: "Where it is kept how orders ended and who took their tokens, and for how long. Needs a restart."},
	{key: "types", kind: lives, doc: "How long tokens live, by type, in place of the built-in values."},
	{key: "defaults", kind: defaults, doc: "What a target says when it says nothing."},
	{key: "targets", kind: mapping{item: target, form: targetName, rule: "a target's name is 1 to 63 of a-z, 0-9, ., _ and -, beginning with a letter or digit"}, must: true,
		doc: "What is kept ready. The name is the one in the URL, GET /pool/NAME/token."},
}}

var server = section{fields: []field{
	{key: "listen", kind: someText, preset: "127.0.0.1:8080",
		doc: "host:port to listen on; --listen and POOLD_LISTEN beat it. Without a usable key only loopback addresses are allowed. Needs a restart."},
	{key: "tls", kind: section{fields: []field{
		{key: "cert", kind: anyText, doc: "File with the certificate chain."},
		{key: "key", kind: anyText, doc: "File with the key of the certificate."},
	}}, doc: "Certificate and key, both or neither. Default: plain HTTP. Needs a restart."},
	{key: "keys", kind: list{item: serverKey, named: true}, doc: "Who may call. Without an entry whose key is not empty, callers on this machine need no key."},
	{key: "body_budget", kind: size(leastBodyBudget, 1<<40), preset: Size(256 << 20),
		doc: "The most bytes that bodies above 64 KiB may take at a replica until their requests end; beyond it 503 with Retry-After. Pictures are such bodies."},
	{key: "callback_secrets", kind: list{item: secret},
		doc: "What signs the addresses that providers call back: the first signs, all verify; 16 characters at least. Default: derived from each provider's key."},
}}

var serverKey = section{fields: []field{
	{key: "name", kind: form(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`, "1 to 63 letters, digits, ., _, @ and -, beginning with a letter or digit"), must: true,
		doc: "What the log calls this caller."},
	{key: "key", kind: secret, doc: "What the caller sends as `Authorization: Bearer`; 8 characters at least, 16 or more are wise. This or key_sha256."},
	{key: "key_sha256", kind: secret, doc: "The SHA-256 of the key as 64 hex digits, in place of the key."},
	{key: "scopes", kind: list{item: scope, words: true}, must: true,
		doc: "What the caller may do. token: take tokens and report on them; solve: POST /solve, and on_empty: solve; status: read; admin: pause, resume, flush, reload, dead letters."},
	{key: "targets", kind: list{item: glob, words: true}, doc: "Names or patterns of the targets that this key may use. Default: all."},
	{key: "rate", kind: rate, doc: "Most requests, such as 50/s, 30/m or 500/h, for each replica. Default: no limit."},
}}

var redis = section{fields: []field{
	{key: "url", kind: redisURL, preset: captcha.Secret(embeddedRedis),
		doc: "embedded (inside the daemon, keeps nothing), redis://, rediss:// or unix://; several addresses, separated by commas, are a cluster."},
	{key: "sentinel_master", kind: anyText, doc: "Where set, the addresses are those of sentinels, and this is the master's name."},
	// Braces would take over the hash tags that keep the keys of one identity in one
	// slot of a cluster.
	{key: "prefix", kind: form(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$`, "1 to 63 letters, digits, ., _, : and -, beginning with a letter or digit"), preset: "captcha",
		doc: "First part of every key in Redis."},
}}

var provider = section{fields: []field{
	{key: "name", kind: form(`^[a-z0-9][a-z0-9-]{0,30}$`, "1 to 31 of a-z, 0-9 and -, beginning with a letter or digit"), must: true,
		doc: "Yours to choose."},
	{key: "api", kind: word(APILegacy, APITasks, APISimulated), preset: APILegacy,
		doc: "The protocol: legacy (in.php and res.php), tasks (createTask), or simulated, whose tokens no site accepts."},
	{key: "profile", kind: word(profileCaptchaAI, "2captcha", "generic", profilePoold), preset: "generic", doc: "What the service's error codes mean."},
	{key: "url", kind: providerURL, doc: "Base address of the service, without in.php. Required but for simulated."},
	{key: "key", kind: secret, doc: "The account's key. Required but for simulated; where it is empty, the provider is left out."},
	{key: "concurrency", kind: integer{1, 10000}, preset: 20,
		doc: "Most tasks at once, over all targets and replicas; where the service tells its threads, the smaller of the two."},
	{key: "first_poll", kind: duration{shortestPoll, longest}, doc: "From a submit to the first question. Default: by type."},
	{key: "poll_interval", kind: duration{shortestPoll, longest}, doc: "Between the next questions. Default: by type."},
	{key: "timeout", kind: duration{shortestPoll, longest}, preset: defaultTimeout, doc: "A task older than this is given up; above first_poll."},
	{key: "balance", kind: boolean{}, preset: false, doc: "Whether the account's balance is read, at most once a minute."},
	{key: "callback_url", kind: callbackURL, preset: "", doc: "Where the service reaches this daemon from outside, without /callback. Empty: polling alone."},
	{key: "fallback_after", kind: duration{0, longest},
		doc: "Poll a task that had no callback for this long, at least 50ms and below timeout. Default: the least of 120s, half the timeout and half the tokens' usable life."},
	{key: "callback_delay", kind: duration{0, longest}, preset: 10 * time.Second, doc: "How old a callback's token is taken to be when it first arrives."},
	{key: "price_per_1000", kind: prices,
		doc: "What 1000 solves cost, for the spend figures: one number, or numbers by type. 0 is free. Without a number the price is unknown, and so is what is spent."},
}}

var prices = numberOr{number{0, maxPrice}, section{fields: byType(captcha.SolvableTypes(), func(captcha.Type) field {
	return field{kind: number{0, maxPrice}, doc: "What 1000 solves of this type cost; 0 is free."}
})}}

var totalBudget = section{explain: noHourlyTotal, fields: []field{
	{key: "per_day", kind: integer{0, maxBudget}, preset: 0, doc: "In the last 24 hours; 0 is no cap."},
}}

var budget = section{fields: []field{
	{key: "per_hour", kind: integer{0, maxBudget}, preset: 0, doc: "In the last 60 minutes; 0 is no cap."},
	{key: "per_day", kind: integer{0, maxBudget}, preset: 0, doc: "In the last 24 hours; 0 is no cap."},
}}

var deadLetters = section{fields: []field{
	{key: "dir", kind: someText, preset: "./dead-letters", doc: "The directory; it holds live tokens."},
}}

var solve = section{fields: []field{
	{key: "owner", kind: someText, doc: "Who answers for these solves; required, here or in the defaults."},
	{key: "pages", kind: list{item: pagePattern, words: true}, must: true,
		doc: "Patterns of the pages that may be asked for, such as https://*.example.com/*. A * in the host crosses no dot, one in the path crosses slashes; queries are not compared."},
	{key: "sitekeys", kind: list{item: form(`^[!-~]{1,256}$`, "a site key or a pattern such as 6Le*, 1 to 256 characters without spaces"), words: true},
		doc: "Patterns of the site keys that may be asked for; GeeTest's gt and captcha_id count as such. Default: all."},
	{key: "images", kind: boolean{}, preset: false, doc: "Whether pictures may be asked for, which have neither page nor site key."},
	{key: "budget", kind: budget, must: true, doc: "The most of these solves that are bought; one cap at least is above 0."},
	{key: "rate", kind: rate, doc: "Most requests for these identities, such as 20/s, 30/m or 500/h, over all replicas; those that share a solve are one. Default: no limit."},
}}

var dedup = section{fields: []field{
	{key: "backend", kind: word(DedupRedis, DedupPostgres), preset: DedupRedis, doc: "redis: the one of the section redis; postgres: the database of url."},
	{key: "url", kind: postgresURL, doc: "Address of the database, beginning with postgres://. Required with postgres."},
}}

var history = section{fields: []field{
	{key: "backend", kind: word(HistoryRedis, HistoryPostgres, HistoryDynamoDB, HistoryNone), preset: HistoryRedis,
		doc: "redis: the one of the section redis; postgres: the database of url; dynamodb: the table; none: no history is kept."},
	{key: "keep", kind: duration{shortestHistory, longestHistory}, doc: "How long. Default: 168h (7 days) in redis, 2160h (90 days) in postgres and dynamodb."},
	{key: "audit", kind: duration{0, longestHistory}, preset: keepAudit,
		doc: "How long it is kept which key took which token, and how that was reported: 24h at least, or 0s, which is not at all."},
	{key: "url", kind: postgresURL, doc: "Address of the database, beginning with postgres://. Required with postgres."},
	{key: "table", kind: form(`^[A-Za-z0-9_.-]{3,255}$`, "a table's name: 3 to 255 letters, digits, _, . and -"), doc: "dynamodb alone. Default: CaptchaSolves."},
	{key: "endpoint", kind: endpointURL, doc: "dynamodb alone: address of another server than that of AWS, such as an emulator. Default: that of AWS."},
	{key: "region", kind: form(`^[a-z0-9-]{1,63}$`, "a region's name such as eu-central-1"), doc: "dynamodb alone. Default: what AWS_REGION or the configuration of AWS says."},
	{key: "active_items", kind: boolean{}, preset: true,
		doc: "dynamodb alone: whether the table has an item of each order under way, for other programs. false saves 4 write units an order."},
}}

var lives = section{explain: unpoolableType, fields: byType(captcha.Types(), func(t captcha.Type) field {
	l := builtInLife(t)
	return field{doc: "Tokens of this type.", kind: section{fields: []field{
		{key: "lifetime", kind: duration{time.Second, longest}, preset: l.Lifetime, doc: "A token is dead this long after it was solved."},
		{key: "margin", kind: duration{0, longest}, preset: l.Margin, doc: "How long before its end a token is no longer handed out; below the lifetime."},
	}}}
})}

// byType makes a field for each type of token.
func byType(types []captcha.Type, of func(captcha.Type) field) (fields []field) {
	for _, t := range types {
		f := of(t)
		f.key = string(t)
		fields = append(fields, f)
	}
	return fields
}

// sharedFields are those that a target has, or takes from the defaults.
var sharedFields = append([]field{
	{key: "depth", kind: integer{0, MostDepth}, preset: 5, doc: "How many tokens are kept fresh; with refill: adaptive the most ever kept and on order."},
	{key: "refill", kind: word(RefillFixed, RefillAdaptive), preset: RefillFixed,
		doc: "fixed: the depth is kept at all times; adaptive: learns the demand and buys just as much."},
	{key: "min", kind: integer{0, MostDepth}, preset: 0, doc: "Adaptive: how many are kept even when nobody asks, at most depth."},
	{key: "hit_rate", kind: number{0.5, 0.9999}, preset: DefaultHitRate, doc: "Adaptive: wanted share of requests that find a token."},
	{key: "max_waste", kind: number{0.1, MostMaxWaste}, preset: DefaultMaxWaste,
		doc: "Adaptive: how many spare tokens you would spend to save one caller a wait."},
	{key: "idle_after", kind: duration{0, longest}, preset: time.Duration(0), doc: "No request for this long: buy nothing; adaptive keeps min. 0s is never."},
	{key: "warm", kind: list{item: warmWindow, most: mostWindows},
		doc: "Windows in which at least so many tokens are kept ready. A target's own list replaces that of the defaults, and [] is none."},
	{key: "lifetime", kind: duration{time.Second, longest}, doc: "A token is dead this long after it was solved. Default: by type."},
	{key: "margin", kind: duration{0, longest}, doc: "How long before its end a token is no longer handed out; below the lifetime. Default: by type."},
	{key: "on_empty", kind: word(OnEmptyFail, OnEmptyWait, OnEmptySolve), preset: OnEmptyFail,
		doc: "What a request without ?wait= meets where no token is ready: fail (503 at once), wait (as ?wait=20s) or solve (one is bought for it, up to 60s; to a key without the scope solve it is fail)."},
	{key: "rate", kind: rate, doc: "Most tokens handed out, such as 20/s, 30/m or 500/h, over all replicas. Default: no limit."},
	{key: "budget", kind: budget, doc: "The most solves that are bought for a target; one that names a single cap keeps the other of the defaults."},
	{key: "owner", kind: someText, doc: "Who answers for the target; required, here or in the defaults."},
	{key: "paused", kind: boolean{}, preset: false, doc: "true: buy nothing; what is in stock is still handed out."},
}, browserFields...)

// browserFields say as whom the solver shall visit the page.
var browserFields = []field{
	{key: "user_agent", kind: anyText, doc: "The browser that the solver shall pretend to be. Default: its choice."},
	{key: "proxy", kind: proxy, doc: "host:port or user:password@host:port that the solver shall use; empty is none. Default: its own."},
	{key: "proxy_type", kind: word("http", "https", "socks4", "socks5"), doc: "Required with proxy."},
}

// ownFields make a target what it is and cannot be shared.
var ownFields = append([]field{
	{key: "type", kind: poolableType, must: true, doc: "The kind of CAPTCHA."},
	{key: "sitekey", kind: siteKey, must: true, doc: "The site key that the page shows to the CAPTCHA's vendor."},
	{key: "pageurl", kind: pageURL, must: true, doc: "The whole address of the page that shows the CAPTCHA."},
}, variantFields...)

// variantFields tell variants of one type apart.
var variantFields = []field{
	{key: "invisible", kind: boolean{}, preset: false, only: []captcha.Type{captcha.RecaptchaV2}, doc: "The variant without the checkbox. recaptcha_v2 alone."},
	{key: "enterprise", kind: boolean{}, preset: false, only: []captcha.Type{captcha.RecaptchaV2, captcha.RecaptchaV3},
		doc: "reCAPTCHA Enterprise. recaptcha_v2 and recaptcha_v3 alone."},
	{key: "action", kind: anyText, only: []captcha.Type{captcha.RecaptchaV3, captcha.Turnstile}, doc: "The action that the page names. recaptcha_v3 and turnstile alone."},
	{key: "min_score", kind: number{0.1, 0.9}, only: []captcha.Type{captcha.RecaptchaV3}, doc: "The least score that is asked for. recaptcha_v3 alone."},
	{key: "data", kind: anyText, only: []captcha.Type{captcha.Turnstile}, doc: "What the page gives as cData. turnstile alone."},
}

var (
	defaults = section{explain: unknownDefault, fields: sharedFields}
	target   = section{explain: unpoolableField, excused: namesOtherType, fields: append(append([]field(nil), ownFields...), sharedFields...)}
)

var warmWindow = section{fields: []field{
	{key: "cron", kind: cronText, must: true,
		doc: `When it begins: "minute hour day month weekday", or @hourly, @daily, @weekly, @monthly, @yearly; UTC unless it begins with CRON_TZ=Europe/Berlin or the like.`},
	{key: "tokens", kind: integer{1, MostDepth}, must: true, doc: "How many are kept ready."},
	{key: "for", kind: duration{ShortestWindow, LongestWindow}, must: true, doc: "How long it lasts."},
}}

// solveFields are those of a request of POST /solve. What a target has too is read by
// the same fields.
var solveFields = slices.Concat([]field{
	{key: "type", kind: solvableType, must: true, doc: "The kind of CAPTCHA."},
	{key: "sitekey", kind: siteKey, must: true, only: captcha.Types(), doc: "The site key that the page shows to the CAPTCHA's vendor."},
	{key: "pageurl", kind: pageURL, must: true, only: pageTypes, doc: "The whole address of the page that shows the CAPTCHA."},
}, variantFields, belonging(pageTypes, browserFields), []field{
	{key: "data_s", kind: longText, only: []captcha.Type{captcha.RecaptchaV2}, doc: "What the page gives as data-s. recaptcha_v2 alone."},
	{key: "rqdata", kind: longText, only: []captcha.Type{captcha.HCaptcha}, doc: "What the page gives as rqdata. hcaptcha alone."},
	{key: "gt", kind: siteKey, must: true, only: []captcha.Type{captcha.GeeTest}, doc: "The site's key. geetest alone."},
	{key: "challenge", kind: siteKey, must: true, only: []captcha.Type{captcha.GeeTest}, doc: "That of this visit of the page. geetest alone."},
	{key: "api_server", kind: form(`^[A-Za-z0-9.-]{1,253}$`, "a host's name such as api-na.geetest.com"), only: []captcha.Type{captcha.GeeTest},
		doc: "Where the page loads GeeTest from. Default: the usual one. geetest alone."},
	{key: "captcha_id", kind: siteKey, must: true, only: []captcha.Type{captcha.GeeTestV4}, doc: "The site's key. geetest_v4 alone."},
}, belonging([]captcha.Type{captcha.Image}, []field{
	{key: "image", kind: picture, must: true, doc: "The picture as base64, at most 1 MiB of bytes."},
	{key: "charset", kind: word(captcha.Digits, captcha.Letters, captcha.DigitsOrLetters, captcha.DigitsAndLetters), doc: "The characters of a picture's text. Default: not said."},
	{key: "case_sensitive", kind: boolean{}, doc: "Whether small and capital letters of a picture differ."},
	{key: "min_length", kind: integer{1, mostLetters}, doc: "Of a picture's text. Default: not said."},
	{key: "max_length", kind: integer{1, mostLetters}, doc: "Of a picture's text; not below min_length. Default: not said."},
	{key: "phrase", kind: boolean{}, doc: "Whether a picture's text has several words."},
	{key: "math", kind: boolean{}, doc: "Whether a picture's text is a sum, whose result is wanted."},
	{key: "language", kind: form(`^[a-z]{2}$`, "a code of ISO 639-1 such as en"), doc: "Of a picture's text. Default: not said."},
	{key: "instructions", kind: anyText, doc: "For the person who reads the picture."},
}), []field{
	{key: "timeout", kind: duration{time.Second, longestSolve}, preset: 2 * time.Minute, doc: "How long the caller waits."},
	{key: "dedup", kind: word(DedupRequest, DedupIdentity), preset: DedupRequest,
		doc: "request: a solve is shared by one Idempotency-Key alone; identity: by all that ask for the same."},
	{key: "dedup_proxy", kind: boolean{}, preset: false, doc: "Whether the proxy counts for dedup: identity."},
})

var solveRequest = section{explain: otherSpelling, fields: solveFields}

// pageTypes are those whose CAPTCHA stands on a page.
var pageTypes = append(captcha.Types(), captcha.GeeTest, captcha.GeeTestV4)

// belonging are the same fields for some types alone.
func belonging(types []captcha.Type, fields []field) []field {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].only = types
	}
	return fields
}
