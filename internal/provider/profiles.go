package provider

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"poold/internal/captcha"
)

// profile names the service of a provider, which gives error codes their meaning; "" = a service that poold does not
// know.
type profile string

// The services that differ from others.
const (
	captchaAI  = "captchaai"
	twoCaptcha = "2captcha"
	capMonster = "capmonster"
	capSolver  = "capsolver"
)

// fault is the meaning of an error code.
type fault struct {
	class Class
	delay time.Duration // pause before the next submission; 0 = none
	note  string        // an explanation for people if the code alone is misleading

	// For account faults: what the provider does, and what the operator can do. NAME is a placeholder for the provider's
	// name, and SITE for the provider's host.
	does, remedy string
}

// These are the delays before the next call after certain error codes, as the services recommend them.
const (
	soon  = 5 * time.Second
	later = 10 * time.Second
	probe = time.Minute // interval between two calls to an account that cannot buy
)

// threadFaults has the codes that mean something else at CaptchaAI than at other services. CaptchaAI sells threads, so
// its accounts have no balance.
var threadFaults = map[string]fault{
	"ERROR_ZERO_BALANCE": {class: Capacity, delay: soon, note: "no thread of the account is free"},
	"ERROR_KEY_DOES_NOT_EXIST": {
		class: Account, delay: probe, note: "unknown key, or an account without threads", does: refusesKey,
		remedy: checkKeyAndPlan,
	},
}

// meaning returns the meaning of an error code, and the word for logs and errors. An
// unknown code counts as a fault of the task, so that it cannot stop a target or an account. The
// caller must clean an unknown code before it logs or returns the code.
func (p profile) meaning(code string) (word string, f fault, known bool) {
	// Some services append a sentence to the code, and some omit the space in "ERROR: 1001".
	first, rest, _ := strings.Cut(code, ":")
	rest = strings.TrimSpace(rest)
	if first == "ERROR" && len(rest) >= 4 {
		first += ": " + rest[:4]
	}
	first, _, _ = strings.Cut(first, "|")
	for _, word := range []string{strings.TrimSpace(code), strings.TrimSpace(first)} {
		f, known := faults[word]
		if thread, differs := threadFaults[word]; differs && p == captchaAI {
			f = thread
		}
		if known {
			return word, f, true
		}
	}
	if isLink(code) {
		return code, fault{class: Parameters, note: "the service answers with a page that explains what is missing"}, false
	}
	return code, fault{class: Task}, false
}

// asError returns the error for a code of the service. Its text never contains the secrets.
func (p profile) asError(code string, hide ...captcha.Secret) *Error {
	word, f, known := p.meaning(code)
	e := &Error{Class: f.class, Code: word, Delay: f.delay}
	if !known {
		e.Code = cmp.Or(clean(code, longCode, hide...), "unprintable")
	}
	if f.note != "" {
		e.Err = errors.New(f.note)
	}
	return e
}

// isLink reports whether a code is the URL of a help page. 2captcha sends such URLs in place of some
// codes.
func isLink(code string) bool {
	return strings.HasPrefix(code, "https://") || strings.HasPrefix(code, "http://")
}

// These are faults and remedies that several codes share.
const (
	emptyBalance   = "reports an empty balance"
	refusesKey     = "refuses the key"
	refusesAddress = "refuses the address of this machine"
	bansMachine    = "has banned this machine for a while"

	topUp    = "top up the balance at SITE, then run `poold probe NAME`"
	checkKey = "check providers.NAME.key in the configuration file"

	checkKeyAndPlan = checkKey + ", and the account's plan at SITE"

	banEnds    = "; poold tries it again when the ban ends, or at once after `poold probe NAME`"
	lowerLimit = "lower providers.NAME.concurrency" + banEnds
)

// faults maps every known code to the meaning that most services give it.
var faults = func() map[string]fault {
	all := make(map[string]fault)
	for codes, f := range map[string]fault{
		// The service is full or asks for fewer calls, and nothing was bought.
		"ERROR_NO_SLOT_AVAILABLE": {class: Capacity, delay: soon, note: "no worker of the service is free"},
		`ERROR_TOO_MUCH_REQUESTS ERROR_RATE_LIMIT
			ERROR_SERVICE_UNAVALIABLE ERROR_SERVICE_UNAVAILABLE`: {class: Capacity, delay: soon},
		`MAX_USER_TURN ERROR_SERVER_ERROR ERROR_INTERNAL_SERVER_ERROR`: {class: Capacity, delay: later},

		// The account cannot buy until an operator acts.
		"ERROR_ZERO_BALANCE":                           {Account, probe, "", emptyBalance, topUp},
		"ERROR_WRONG_USER_KEY ERROR_KEY_DENIED_ACCESS": {Account, probe, "", refusesKey, checkKey},
		"ERROR_KEY_DOES_NOT_EXIST":                     {Account, probe, "", refusesKey, checkKeyAndPlan},
		"ERROR_IP_NOT_ALLOWED": {Account, probe, "", refusesAddress,
			"allow the address of this machine in the account's settings at SITE"},
		"ERROR_IP_BLOCKED": {Account, probe, "", refusesAddress,
			"ask the support of SITE to unblock the address of this machine"},
		"ERROR_ACCOUNT_SUSPENDED": {Account, probe, "", "has suspended the account",
			"ask the support of SITE why the account is suspended"},
		// Bans of a known length.
		"IP_BANNED ERROR_IP_BANNED": {Account, 5 * time.Minute, "", bansMachine,
			"check providers.NAME.key and the number of submits" + banEnds},
		"ERROR:1001": {Account, 10 * time.Minute, "banned: asked for a slot too often without one", bansMachine, lowerLimit},
		"ERROR:1002": {Account, 5 * time.Minute, "banned: asked too often without money", emptyBalance, topUp},
		"ERROR:1003": {Account, 30 * time.Second, "banned: too many submits without a slot", bansMachine, lowerLimit},
		"ERROR:1004": {Account, 10 * time.Minute, "banned: too many calls with a wrong key", refusesKey, checkKey},
		"ERROR:1005": {Account, 10 * time.Minute, "banned: too many polls", bansMachine,
			"raise providers.NAME.poll_interval" + banEnds},

		// The parameters of the target are wrong.
		`ERROR_GOOGLEKEY ERROR_WRONG_GOOGLEKEY ERROR_SITEKEY
			ERROR_RECAPTCHA_INVALID_SITEKEY`: {class: Parameters, note: "the sitekey is wrong"},
		"ERROR_PAGEURL ERROR_DOMAIN_NOT_ALLOWED ERROR_RECAPTCHA_INVALID_DOMAIN": {class: Parameters,
			note: "the pageurl is wrong"},
		"ERROR_BAD_TOKEN_OR_PAGEURL": {class: Parameters, note: "the sitekey and the pageurl do not fit"},
		`ERROR_BAD_PARAMETERS ERROR_CAPTCHA_ID ERROR_NO_SUCH_METHOD ERROR_TASK_NOT_SUPPORTED
			ERROR_TASK_ABSENT ERROR_BAD_PROXY ERROR_INVALID_TASK_DATA ERROR_BAD_REQUEST ERROR_INVISIBLE_RECAPTCHA
			ERROR_VISIBLE_RECAPTCHA ERROR_PROXY_NOT_AUTHORISED ERROR_PROXY_INCOMPATIBLE_HTTP_VERSION`: {class: Parameters},
		// The picture is invalid.
		`ERROR_UPLOAD ERROR_ZERO_CAPTCHA_FILESIZE ERROR_TOO_BIG_CAPTCHA_FILESIZE
			ERROR_WRONG_FILE_EXTENSION ERROR_IMAGE_TYPE_NOT_SUPPORTED ERROR_CAPTCHAIMAGE_BLOCKED
			TOO_MANY_BAD_IMAGES`: {class: Parameters},

		// Only this task failed.
		"ERROR_CAPTCHA_UNSOLVABLE": {class: Task, note: "no worker could solve it"},
		`ERROR_BAD_DUPLICATES ERROR_TOKEN_EXPIRED
			ERROR_PROXY_CONNECTION_FAILED ERROR_WRONG_ID_FORMAT ERROR_WRONG_CAPTCHA_ID
			ERROR_NO_SUCH_CAPCHA_ID ERROR_TASKID_INVALID ERROR_TASK_TIMEOUT ERROR_EMPTY_ACTION`: {class: Task},
		// The service refused a report.
		`ERROR_IP_ADDRES REPORT_NOT_RECORDED ERROR_REPORT_NOT_RECORDED ERROR_DUPLICATE_REPORT`: {class: Task},
	} {
		for code := range strings.FieldsSeq(codes) {
			all[strings.Replace(code, ":", ": ", 1)] = f
		}
	}
	return all
}()

// Advice returns what the provider does and what an operator can do, for the code of an account fault; "" = unknown.
func (c *Client) Advice(code string) (does, remedy string) {
	known := faults[code]
	if strings.HasPrefix(code, "http_") {
		known.does, known.remedy = "refuses calls to its address", "correct providers.NAME.url in the configuration file"
	}
	site := strings.TrimPrefix(strings.TrimPrefix(c.cfg.URL, "https://"), "http://")
	site, _, _ = strings.Cut(site, "/")
	return known.does, strings.NewReplacer("NAME", c.cfg.Name, "SITE", site).Replace(known.remedy)
}
