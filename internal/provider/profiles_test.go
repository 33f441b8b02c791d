package provider

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// everyCode lists each known code with its class for captchaai, 2captcha and another service.
var everyCode = []struct {
	codes string
	want  [3]Class
	delay [3]time.Duration // minimum delay; the maximum is 20 % higher
}{
	{`ERROR_NO_SLOT_AVAILABLE ERROR_TOO_MUCH_REQUESTS ERROR_SERVICE_UNAVALIABLE ERROR_SERVICE_UNAVAILABLE
		ERROR_RATE_LIMIT`, [3]Class{Capacity, Capacity, Capacity}, same(5 * time.Second)},
	{"MAX_USER_TURN ERROR_SERVER_ERROR ERROR_INTERNAL_SERVER_ERROR",
		[3]Class{Capacity, Capacity, Capacity}, same(10 * time.Second)},
	{"ERROR_ZERO_BALANCE", [3]Class{Capacity, Account, Account},
		[3]time.Duration{5 * time.Second, time.Minute, time.Minute}},
	{"ERROR_WRONG_USER_KEY ERROR_KEY_DOES_NOT_EXIST ERROR_IP_NOT_ALLOWED ERROR_IP_BLOCKED ERROR_ACCOUNT_SUSPENDED ERROR_KEY_DENIED_ACCESS",
		[3]Class{Account, Account, Account}, same(time.Minute)},
	{"IP_BANNED ERROR_IP_BANNED", [3]Class{Account, Account, Account}, same(5 * time.Minute)},
	{"ERROR:_1001 ERROR:_1004 ERROR:_1005", [3]Class{Account, Account, Account}, same(10 * time.Minute)},
	{"ERROR:_1002", [3]Class{Account, Account, Account}, same(5 * time.Minute)},
	{"ERROR:_1003", [3]Class{Account, Account, Account}, same(30 * time.Second)},
	{`ERROR_PAGEURL ERROR_GOOGLEKEY ERROR_WRONG_GOOGLEKEY ERROR_SITEKEY ERROR_BAD_TOKEN_OR_PAGEURL
		ERROR_BAD_PARAMETERS ERROR_DOMAIN_NOT_ALLOWED ERROR_CAPTCHA_ID ERROR_NO_SUCH_METHOD
		ERROR_TASK_NOT_SUPPORTED ERROR_TASK_ABSENT ERROR_BAD_PROXY ERROR_INVALID_TASK_DATA ERROR_BAD_REQUEST ERROR_RECAPTCHA_INVALID_DOMAIN
		ERROR_INVISIBLE_RECAPTCHA ERROR_VISIBLE_RECAPTCHA ERROR_PROXY_NOT_AUTHORISED ERROR_PROXY_INCOMPATIBLE_HTTP_VERSION
		ERROR_RECAPTCHA_INVALID_SITEKEY https://2captcha.com/blog/google-search-recaptcha`,
		[3]Class{Parameters, Parameters, Parameters}, same(0)},
	{`ERROR_UPLOAD ERROR_ZERO_CAPTCHA_FILESIZE ERROR_TOO_BIG_CAPTCHA_FILESIZE ERROR_WRONG_FILE_EXTENSION
		ERROR_IMAGE_TYPE_NOT_SUPPORTED ERROR_CAPTCHAIMAGE_BLOCKED TOO_MANY_BAD_IMAGES`,
		[3]Class{Parameters, Parameters, Parameters}, same(0)},
	{`ERROR_CAPTCHA_UNSOLVABLE ERROR_BAD_DUPLICATES ERROR_TOKEN_EXPIRED ERROR_PROXY_CONNECTION_FAILED
		ERROR_WRONG_ID_FORMAT ERROR_WRONG_CAPTCHA_ID ERROR_NO_SUCH_CAPCHA_ID ERROR_EMPTY_ACTION
		ERROR_TASKID_INVALID ERROR_TASK_TIMEOUT`,
		[3]Class{Task, Task, Task}, same(0)},
	{"ERROR_IP_ADDRES REPORT_NOT_RECORDED ERROR_REPORT_NOT_RECORDED ERROR_DUPLICATE_REPORT",
		[3]Class{Task, Task, Task}, same(0)},
	{"ERROR_NEVER_HEARD_OF", [3]Class{Task, Task, Task}, same(0)},
}

func same(d time.Duration) [3]time.Duration { return [3]time.Duration{d, d, d} }

// Each code gives the expected error with each profile, in JSON, in plain text and in the tasks
// protocol.
func TestEveryCode(t *testing.T) {
	for _, row := range everyCode {
		for code := range strings.FieldsSeq(row.codes) {
			code = strings.ReplaceAll(code, ":_", ": ")
			for i, name := range []string{captchaAI, twoCaptcha, other} {
				for _, form := range []struct {
					api   targets.Protocol
					reply string
				}{
					{targets.ProtocolInPHP, `{"status":0,"request":"` + code + `"}`},
					{targets.ProtocolInPHP, `{"status":0,"request":"` + code + `","error_text":"a sentence"}`},
					{targets.ProtocolInPHP, code},
					{targets.ProtocolCreateTask, `{"errorId":1,"errorCode":"` + code + `","errorDescription":"a sentence"}`},
				} {
					c, j, _, reply := newScriptedClient(t, targets.Provider{Service: name, Protocol: form.api})
					reply(http.StatusOK, form.reply)
					e := faultOf(t, submitOne(t, c))
					if e.Class != row.want[i] || e.Code != code || e.Unknown {
						t.Errorf("%s: %s gives %v %q unknown=%v, want %v", name, form.reply, e.Class, e.Code, e.Unknown, row.want[i])
					}
					if low := row.delay[i]; e.Delay < low || e.Delay > low+low/5 {
						t.Errorf("%s: %s waits %v, want %v", name, code, e.Delay, low)
					}
					testkit.Equal(t, name+", "+code+": observed", j.last(), "submit "+row.want[i].String())
				}
			}
		}
	}
}

// The table everyCode contains all codes of the profiles.
func TestEveryCodeIsInTheTable(t *testing.T) {
	tested := make(map[string]bool)
	for _, row := range everyCode {
		for code := range strings.FieldsSeq(row.codes) {
			tested[strings.ReplaceAll(code, ":_", ": ")] = true
		}
	}
	for code := range faults {
		if !tested[code] {
			t.Errorf("%s is in the profiles and not in the table", code)
		}
	}
}

func TestErrorNumbersWithoutCode(t *testing.T) {
	for id, want := range map[string]string{
		"1": "ERROR_KEY_DOES_NOT_EXIST", "2": "ERROR_NO_SLOT_AVAILABLE", "3": "ERROR_ZERO_CAPTCHA_FILESIZE",
		"4": "ERROR_TOO_BIG_CAPTCHA_FILESIZE", "10": "ERROR_ZERO_BALANCE", "11": "ERROR_IP_NOT_ALLOWED",
		"12": "ERROR_CAPTCHA_UNSOLVABLE", "13": "ERROR_BAD_DUPLICATES", "14": "ERROR_NO_SUCH_METHOD",
		"15": "ERROR_IMAGE_TYPE_NOT_SUPPORTED", "16": "ERROR_NO_SUCH_CAPCHA_ID", "21": "ERROR_IP_BLOCKED",
		"22": "ERROR_TASK_ABSENT", "23": "ERROR_TASK_NOT_SUPPORTED", "31": "ERROR_RECAPTCHA_INVALID_SITEKEY",
		"999": "errorId 999", `"12"`: "ERROR_CAPTCHA_UNSOLVABLE",
	} {
		c, _, _, reply := newScriptedClient(t, targets.Provider{Service: twoCaptcha, Protocol: targets.ProtocolCreateTask})
		reply(http.StatusOK, `{"errorId":`+id+`}`)
		if e := faultOf(t, submitOne(t, c)); e.Code != want || e.Unknown {
			t.Errorf("errorId %s gives %q, want %q", id, e.Code, want)
		}
	}
}

func TestVariantsOfACode(t *testing.T) {
	for text, want := range map[string]Class{
		"ERROR:1003":                        Account,
		"ERROR: 1003 come back later":       Account,
		"ERROR_PAGEURL: no such page":       Parameters,
		"ERROR_ZERO_BALANCE|0":              Capacity,
		"  ERROR_WRONG_USER_KEY\n":          Account,
		"ERROR: 9999":                       Task,
		"ERROR_" + strings.Repeat("X", 500): Task,
	} {
		c, _, _, reply := newScriptedClient(t, targets.Provider{})
		reply(http.StatusOK, text)
		e := faultOf(t, submitOne(t, c))
		if e.Class != want || e.Unknown || len(e.Code) > 100 {
			t.Errorf("%q gives %v unknown=%v with a code of %d characters, want %v", text, e.Class, e.Unknown, len(e.Code), want)
		}
	}
}
