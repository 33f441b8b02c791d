package provider

import (
	"cmp"
	"strings"
	"time"

	"poold/internal/captcha"
)

// The names of the profiles.
const (
	captchaAI  = "captchaai"
	twoCaptcha = "2captcha"
	generic    = "generic"
	otherPoold = "poold" // another poold, whose tokens may be older than the submission
)

// Profiles lists the valid values of Config.Profile.
func Profiles() []string { return []string{captchaAI, twoCaptcha, generic, otherPoold} }

// profile gives the meaning of the error codes of one service.
type profile struct {
	name   string
	faults map[string]fault // meanings by code; read-only after profileNamed has returned
}

// fault is the meaning of an error code.
type fault struct {
	class Class
	delay time.Duration // pause before the next submission; 0 = none
	note  string        // an explanation for people if the code alone is misleading
}

// These are the delays after error codes, as the services recommend them.
const (
	soon  = 5 * time.Second
	later = 10 * time.Second
	probe = time.Minute // interval between two calls to an account that cannot buy
)

func profileNamed(name string) (profile, bool) {
	p := profile{name: name, faults: commonFaults()}
	switch name {
	case captchaAI:
		// This service sells threads, so accounts have no balance. The code means that all threads are
		// busy.
		p.faults["ERROR_ZERO_BALANCE"] = fault{Capacity, soon, "no thread of the account is free"}
		p.faults["ERROR_KEY_DOES_NOT_EXIST"] = fault{Account, probe, "unknown key, or an account without threads"}
	case twoCaptcha, generic, otherPoold:
	default:
		return profile{}, false
	}
	return p, true
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
		if f, known := p.faults[word]; known {
			return word, f, true
		}
	}
	if isLink(code) {
		return code, fault{Parameters, 0, "the service answers with a page that explains what is missing"}, false
	}
	return code, fault{class: Task}, false
}

// isLink reports whether a code is the URL of a help page. 2captcha sends such URLs in place of some
// codes.
func isLink(code string) bool {
	return strings.HasPrefix(code, "https://") || strings.HasPrefix(code, "http://")
}

// commonFaults maps every known code to the meaning that most services give it.
func commonFaults() map[string]fault {
	all := make(map[string]fault)
	for _, row := range []struct {
		class Class
		delay time.Duration
		codes string
	}{
		// The service is full or asks for fewer calls, and nothing was bought.
		{Capacity, soon, `ERROR_NO_SLOT_AVAILABLE ERROR_TOO_MUCH_REQUESTS ERROR_RATE_LIMIT
			ERROR_SERVICE_UNAVALIABLE ERROR_SERVICE_UNAVAILABLE`},
		{Capacity, later, `MAX_USER_TURN ERROR_SERVER_ERROR ERROR_INTERNAL_SERVER_ERROR`},

		// The account cannot buy until an operator acts.
		{Account, probe, `ERROR_ZERO_BALANCE ERROR_WRONG_USER_KEY ERROR_KEY_DOES_NOT_EXIST
			ERROR_IP_NOT_ALLOWED ERROR_IP_BLOCKED ERROR_ACCOUNT_SUSPENDED`},
		// Bans of a known length; the codes with a space are added below.
		{Account, 5 * time.Minute, `IP_BANNED ERROR_IP_BANNED`},

		// The parameters of the target are wrong.
		{Parameters, 0, `ERROR_PAGEURL ERROR_GOOGLEKEY ERROR_WRONG_GOOGLEKEY ERROR_SITEKEY
			ERROR_RECAPTCHA_INVALID_SITEKEY ERROR_BAD_TOKEN_OR_PAGEURL ERROR_BAD_PARAMETERS
			ERROR_DOMAIN_NOT_ALLOWED ERROR_CAPTCHA_ID ERROR_NO_SUCH_METHOD ERROR_TASK_NOT_SUPPORTED
			ERROR_TASK_ABSENT ERROR_BAD_PROXY ERROR_INVALID_TASK_DATA ERROR_BAD_REQUEST`},
		// The picture is invalid.
		{Parameters, 0, `ERROR_UPLOAD ERROR_ZERO_CAPTCHA_FILESIZE ERROR_TOO_BIG_CAPTCHA_FILESIZE
			ERROR_WRONG_FILE_EXTENSION ERROR_IMAGE_TYPE_NOT_SUPPORTED ERROR_CAPTCHAIMAGE_BLOCKED
			TOO_MANY_BAD_IMAGES`},

		// Only this task failed.
		{Task, 0, `ERROR_CAPTCHA_UNSOLVABLE ERROR_BAD_DUPLICATES ERROR_TOKEN_EXPIRED
			ERROR_PROXY_CONNECTION_FAILED ERROR_WRONG_ID_FORMAT ERROR_WRONG_CAPTCHA_ID
			ERROR_NO_SUCH_CAPCHA_ID ERROR_TASKID_INVALID ERROR_TASK_TIMEOUT ERROR_EMPTY_ACTION`},
		// The service refused a report.
		{Task, 0, `ERROR_IP_ADDRES REPORT_NOT_RECORDED ERROR_REPORT_NOT_RECORDED ERROR_DUPLICATE_REPORT`},
	} {
		for code := range strings.FieldsSeq(row.codes) {
			all[code] = fault{class: row.class, delay: row.delay}
		}
	}
	all["ERROR: 1001"] = fault{Account, 10 * time.Minute, "banned: asked for a slot too often without one"}
	all["ERROR: 1002"] = fault{Account, 5 * time.Minute, "banned: asked too often without money"}
	all["ERROR: 1003"] = fault{Account, 30 * time.Second, "banned: too many submits without a slot"}
	all["ERROR: 1004"] = fault{Account, 10 * time.Minute, "banned: too many calls with a wrong key"}
	all["ERROR: 1005"] = fault{Account, 10 * time.Minute, "banned: too many polls"}
	return all
}

// pace returns the default times of polls. Services discourage polling more often than this.
func pace(profile, api string, t captcha.Type) (firstPoll, interval time.Duration) {
	switch {
	case profile == otherPoold: // another poold may have a token ready immediately, and polls are cheap
		return time.Second, 2 * time.Second
	case t == captcha.Image:
	case profile == captchaAI:
		return 15 * time.Second, 5 * time.Second
	case profile == generic && api == ProtocolCreateTask:
		// The faster services use this protocol. Some of them ban clients that poll more often than
		// every 2 s.
		return 10 * time.Second, 3 * time.Second
	}
	return cmp.Or(captcha.Of(t).FirstPoll, 5*time.Second), 5 * time.Second
}
