package simulated

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"

	"poold/internal/captcha"
)

// tasksRequest is the body of every call of the tasks protocol. A field of the
// wrong JSON type makes the call unreadable.
type tasksRequest struct {
	ClientKey    string      `json:"clientKey"`
	CallbackURL  string      `json:"callbackUrl"`
	LanguagePool string      `json:"languagePool"` // pictures
	TaskID       json.Number `json:"taskId"`
	Task         *taskFields `json:"task"`
}

// taskFields are the parameters that the vendors of this protocol use; where they
// differ in a name, each is understood.
type taskFields struct {
	Type           string  `json:"type"`
	WebsiteURL     string  `json:"websiteURL"`
	WebsiteKey     string  `json:"websiteKey"`
	IsInvisible    bool    `json:"isInvisible"`
	IsEnterprise   bool    `json:"isEnterprise"`
	MinScore       float64 `json:"minScore"`
	PageAction     string  `json:"pageAction"` // reCAPTCHA
	Action         string  `json:"action"`     // Turnstile
	Data           string  `json:"data"`
	CData          string  `json:"cData"`
	TurnstileCData string  `json:"turnstileCData"`
	Metadata       struct {
		Action string `json:"action"`
		CData  string `json:"cdata"`
	} `json:"metadata"`
	DataS   string `json:"recaptchaDataSValue"`
	Payload struct {
		S      string `json:"s"`
		RQData string `json:"rqdata"`
	} `json:"enterprisePayload"`
	GT        string `json:"gt"` // GeeTest, and what follows
	Challenge string `json:"challenge"`
	APIServer string `json:"geetestApiServerSubdomain"`
	Version   int    `json:"version"`
	Init      struct {
		CaptchaID string `json:"captcha_id"`
	} `json:"initParameters"`
	Body          string      `json:"body"` // a picture, and what follows
	Numeric       int         `json:"numeric"`
	Case          bool        `json:"case"`
	MinLength     int         `json:"minLength"`
	MaxLength     int         `json:"maxLength"`
	Phrase        bool        `json:"phrase"`
	Math          bool        `json:"math"`
	Comment       string      `json:"comment"`
	UserAgent     string      `json:"userAgent"`
	ProxyType     string      `json:"proxyType"`
	ProxyAddress  string      `json:"proxyAddress"`
	ProxyPort     json.Number `json:"proxyPort"`
	ProxyLogin    string      `json:"proxyLogin"`
	ProxyPassword string      `json:"proxyPassword"`
}

// tasksAnswer is the envelope of every answer, a callback's too.
type tasksAnswer struct {
	ErrorID          int     `json:"errorId"`
	ErrorCode        string  `json:"errorCode,omitempty"`
	ErrorDescription string  `json:"errorDescription,omitempty"`
	TaskID           int64   `json:"taskId,omitempty"`
	Status           string  `json:"status,omitempty"`
	Solution         any     `json:"solution,omitempty"` // a solution, or a GeeTest's values
	Cost             string  `json:"cost,omitempty"`
	IP               string  `json:"ip,omitempty"`
	CreateTime       int64   `json:"createTime,omitempty"` // Unix seconds
	EndTime          int64   `json:"endTime,omitempty"`
	SolveCount       int     `json:"solveCount,omitempty"`
	Balance          float64 `json:"balance,omitempty"`
}

type solution struct {
	Recaptcha string `json:"gRecaptchaResponse,omitempty"` // hCaptcha's too
	Token     string `json:"token,omitempty"`
	Text      string `json:"text,omitempty"` // of a picture
	UserAgent string `json:"userAgent,omitempty"`
}

// tasksCode is this protocol's word for what the legacy one says differently.
func tasksCode(code string) string {
	switch code {
	case codeNoKey:
		return codeUnknownKey
	case codeGooglekey, codePageurl:
		return codeBadParams
	case codeIDFormat, codeUnknownTask, codeOtherKind:
		return codeNoTask
	case codeIPBlocked:
		return "ERROR_IP_BLOCKED"
	case codeUpload:
		return codeImageKind
	}
	return code
}

// tasksErrorID is the number beside a code.
func tasksErrorID(code string) int {
	switch code {
	case codeNoSlot:
		return 2
	case codeNoImage:
		return 3
	case codeTooBig:
		return 4
	case codeZeroBalance:
		return 10
	case "ERROR_IP_NOT_ALLOWED":
		return 11
	case codeUnsolvable:
		return 12
	case codeNoMethod:
		return 14
	case codeImageKind:
		return 15
	case codeNoTask:
		return 16
	case "ERROR_IP_BLOCKED":
		return 21
	case codeTaskAbsent:
		return 22
	case codeNotSupported:
		return 23
	case codeBadParams:
		return 110
	case codeBadProxy:
		return 130
	}
	return 1
}

// The words of this protocol alone.
const (
	codeNoTask       = "ERROR_NO_SUCH_CAPCHA_ID" // the protocol's own spelling
	codeTaskAbsent   = "ERROR_TASK_ABSENT"
	codeNotSupported = "ERROR_TASK_NOT_SUPPORTED"
)

// tasksRefuse says a code as it stands.
func tasksRefuse(code string) answer { return jsonAnswer(tasksError(code)) }

// tasksFail says a code that both protocols share in this one's words.
func tasksFail(code string) answer { return tasksRefuse(tasksCode(code)) }

func tasksError(code string) tasksAnswer {
	if code == codeNotReady {
		return tasksAnswer{Status: "processing"}
	}
	return tasksAnswer{
		ErrorID: tasksErrorID(code), ErrorCode: code,
		ErrorDescription: "the simulated service refuses: " + code,
	}
}

// tasks is the protocol of createTask and getTaskResult.
type tasks struct{ account }

// parse reads a call.
func (t *tasks) parse(r *http.Request) *query {
	var body tasksRequest
	err := json.NewDecoder(r.Body).Decode(&body)
	q := &query{refuse: tasksRefuse}
	switch r.URL.Path {
	case "/createTask":
		t.parseCreate(q, body, err != nil)
	case "/getTaskResult":
		q.Action, q.Task = Poll, body.TaskID.String()
		q.run = func(at time.Time) answer { return t.getResult(body, at) }
	case "/getBalance":
		q.Action = Balance
		q.run = func(at time.Time) answer {
			if code := t.books.admit(body.ClientKey, at); code != "" {
				return tasksFail(code)
			}
			return jsonAnswer(tasksAnswer{Balance: balance})
		}
	default:
		verdict := tasksVerdicts[r.URL.Path]
		verdict.key, verdict.id = body.ClientKey, body.TaskID.String()
		q.Action, q.Task = Report, verdict.id
		q.run = func(at time.Time) answer {
			if code := t.books.report(verdict, at); code != "" {
				return tasksFail(code)
			}
			return jsonAnswer(tasksAnswer{Status: "success"})
		}
	}
	if err != nil && q.Action != Submit {
		q.run = func(time.Time) answer { return tasksFail(codeBadParams) }
	}
	return q
}

func (t *tasks) parseCreate(q *query, body tasksRequest, unreadable bool) {
	o := order{key: body.ClientKey, ping: pingback{url: body.CallbackURL, form: pingJSON}}
	switch {
	case unreadable || (o.ping.url != "" && !isWebURL(o.ping.url)):
		o.bad = codeBadParams
	case body.Task == nil:
		o.bad = codeTaskAbsent
	default:
		o.identity, o.bad = tasksIdentity(body.Task, body.LanguagePool, t.opts.Flavour)
	}
	q.accept = func(n int64) answer { return jsonAnswer(tasksAnswer{TaskID: n}) }
	t.submits(q, o, tasksFail)
}

// tasksKind takes a task's type apart: <kind>Task needs a proxy of the
// caller's, <kind>TaskProxyless uses the service's own.
func tasksKind(name string) (kind captcha.Type, enterprise, proxy, known bool) {
	stem, proxyless := strings.CutSuffix(strings.ToLower(name), "taskproxyless")
	if !proxyless {
		stem, known = strings.CutSuffix(stem, "task")
		if !known {
			return "", false, false, false
		}
	}
	stem, enterprise = strings.CutSuffix(stem, "enterprise")
	switch stem {
	case "recaptchav2", "nocaptcha":
		kind = captcha.RecaptchaV2
	case "recaptchav3":
		kind = captcha.RecaptchaV3
	case "hcaptcha":
		kind = captcha.HCaptcha
	case "turnstile", "antiturnstile":
		kind = captcha.Turnstile
	case "geetest":
		kind = captcha.GeeTest
	case "imagetotext": // there is no other
		return captcha.Image, false, false, !enterprise && !proxyless
	}
	return kind, enterprise, !proxyless, kind != ""
}

// tasksIdentity reads a task's parameters, strictly.
func tasksIdentity(f *taskFields, languagePool string, flavour Flavour) (id captcha.Identity, bad string) {
	kind, enterprise, proxy, known := tasksKind(f.Type)
	if !known {
		return id, codeNotSupported
	}
	if kind == captcha.GeeTest && f.Version == 4 {
		kind = captcha.GeeTestV4
	}
	id = captcha.Identity{
		Type: kind, Sitekey: f.WebsiteKey, Pageurl: f.WebsiteURL,
		Invisible: f.IsInvisible, Enterprise: enterprise || f.IsEnterprise, MinScore: f.MinScore,
		Action:    f.PageAction + f.Action + f.Metadata.Action, // whichever is there
		Data:      f.Data + f.CData + f.TurnstileCData + f.Metadata.CData,
		UserAgent: f.UserAgent, DataS: f.DataS + f.Payload.S, RQData: f.Payload.RQData,
		GT: f.GT, Challenge: f.Challenge, APIServer: f.APIServer,
	}
	switch kind {
	case captcha.Image:
		if id.Picture, bad = tasksPicture(f, languagePool, flavour); bad != "" {
			return id, bad
		}
	case captcha.GeeTestV4:
		// 2captcha's name for it, and that of the others.
		id.GT, id.CaptchaID = "", f.GT
		if flavour == TwoCaptcha {
			id.CaptchaID = f.Init.CaptchaID
		}
	}
	if proxy {
		address := net.JoinHostPort(f.ProxyAddress, f.ProxyPort.String())
		if f.ProxyLogin != "" {
			address = f.ProxyLogin + ":" + f.ProxyPassword + "@" + address
		}
		id.Proxy, id.ProxyType = captcha.Secret(address), strings.ToLower(f.ProxyType)
	}
	return id, checkIdentity(id, codeBadParams)
}

func (t *tasks) getResult(body tasksRequest, at time.Time) answer {
	n, _ := taskNumber(body.TaskID.String())
	found, code := t.books.poll(body.ClientKey, []int64{n}, at)
	if code != "" {
		return tasksFail(code)
	}
	return jsonAnswer(tasksResult(&found[0], t.opts))
}

// tasksResult is what a poll is answered with, and what a pingback says.
func tasksResult(o *outcome, opts *Options) tasksAnswer {
	if o.code != "" {
		return tasksError(tasksCode(o.code))
	}
	t := &o.task
	var solved any
	agent := opts.userAgent(t)
	switch t.identity.Type {
	case captcha.Turnstile:
		solved = solution{Token: o.token, UserAgent: agent}
	case captcha.Image:
		solved = solution{Text: o.token, UserAgent: agent}
	case captcha.GeeTest, captcha.GeeTestV4:
		values := t.values(opts)
		if agent != "" {
			values["userAgent"] = agent
		}
		solved = values
	default:
		solved = solution{Recaptcha: o.token, UserAgent: agent}
	}
	return tasksAnswer{
		Status: "ready", Solution: solved, Cost: price, IP: "127.0.0.1",
		CreateTime: t.at.Unix(), EndTime: t.due.Unix(), SolveCount: 1,
	}
}
