package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"

	"poold/internal/captcha"
	"poold/internal/strictjson"
)

// TasksCall is a call of the tasks protocol.
type TasksCall struct {
	Key     string
	Action  Action
	ID      string // of a Poll or Report, as it was written
	Verdict Verdict
	Order   Order // of a Submit
	// Bad is the code where the call could not be read, whatever its action; "" = it could.
	Bad string
}

// tasksRequest is the body of every call. A field of the wrong JSON type makes the call
// unreadable.
type tasksRequest struct {
	ClientKey    string          `json:"clientKey"`
	CallbackURL  string          `json:"callbackUrl"`
	LanguagePool string          `json:"languagePool"` // pictures
	TaskID       json.Number     `json:"taskId"`
	Task         json.RawMessage `json:"task"`
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
	Data           string  `json:"data"`       // Turnstile, hCaptcha
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

// knownTask are the fields of a task that are read, or that change nothing, in lower
// case: encoding/json reads them in any.
var knownTask = strings.Fields(`type websiteurl websitekey isinvisible isenterprise minscore pageaction action data cdata turnstilecdata
	metadata recaptchadatasvalue enterprisepayload gt challenge geetestapiserversubdomain version initparameters
	body numeric case minlength maxlength phrase math comment useragent proxytype proxyaddress proxyport proxylogin proxypassword
	nocache recognizingthreshold`)

// knownCall are the fields of a call, of which softId and appId name who wrote the client.
var knownCall = strings.Fields("clientkey callbackurl languagepool taskid task softid appid")

// tasksPaths are the paths of the protocol, with what they are for.
var tasksPaths = map[string]struct {
	action  Action
	verdict Verdict
}{
	"/createTask":               {action: Submit},
	"/getTaskResult":            {action: Poll},
	"/getBalance":               {action: Balance},
	"/reportCorrect":            {Report, Verdict{Good: true}},
	"/reportIncorrect":          {Report, Verdict{}},
	"/reportCorrectRecaptcha":   {Report, Verdict{Good: true, Fits: IsRecaptcha}},
	"/reportIncorrectRecaptcha": {Report, Verdict{Fits: IsRecaptcha}},
	"/reportIncorrectHcaptcha":  {Report, Verdict{Fits: func(t captcha.Type) bool { return t == captcha.HCaptcha }}},

	"/reportIncorrectImageCaptcha": {Report, Verdict{Fits: func(t captcha.Type) bool { return t == captcha.Image }}},
	"/reportIncorrectTokenCaptcha": {Report, Verdict{Fits: func(t captcha.Type) bool { return t != captcha.Image }}},
}

// ReadTasks reads a call of the tasks protocol, a JSON object whatever its type is said
// to be. What could be read is given also where the call is bad.
func ReadTasks(r Request, flavour Flavour) TasksCall {
	path := tasksPaths[r.Path]
	c := TasksCall{Action: path.action, Verdict: path.verdict}
	var body tasksRequest
	var members map[string]json.RawMessage
	err := json.NewDecoder(bytes.NewReader(r.Body)).Decode(&body)
	if err == nil {
		err = errors.Join(json.Unmarshal(r.Body, &members), strictjson.Check(r.Body))
	}
	if _, mixed := members["key"]; mixed || err != nil {
		c.Bad = CodeBadParams
	}
	c.Key, c.ID = body.ClientKey, body.TaskID.String()
	if c.Action == Submit {
		c.Order = body.order(flavour)
		c.Order.Undone = append(c.Order.Undone, unknown(members, knownCall)...)
		if c.Bad != "" {
			c.Order.Bad = c.Bad
		}
	}
	return c
}

// order reads what createTask asks for.
func (b *tasksRequest) order(flavour Flavour) Order {
	o := Order{Pingback: b.CallbackURL}
	if len(b.Task) == 0 || string(b.Task) == "null" {
		o.Bad = CodeTaskAbsent
		return o
	}
	var f taskFields
	var members map[string]json.RawMessage
	if json.Unmarshal(b.Task, &f) != nil || json.Unmarshal(b.Task, &members) != nil {
		o.Bad = CodeBadParams
		return o
	}
	o.Undone = unknown(members, knownTask)
	f.read(&o, b.LanguagePool, flavour)
	if o.Pingback != "" && !isWebURL(o.Pingback) {
		o.Bad = CodeBadParams
	}
	return o
}

// unknown are the members that say something and are not known, sorted.
func unknown(members map[string]json.RawMessage, known []string) (names []string) {
	for name, value := range members {
		if !isNothing(name, value) && !slices.Contains(known, strings.ToLower(name)) {
			names = append(names, name)
		}
	}
	return sorted(names)
}

// isNothing reports whether a field that is not known asks for nothing.
func isNothing(name string, value json.RawMessage) bool {
	switch string(value) {
	case `""`, "0", "false", "null", "[]", "{}":
		return true
	}
	// CapMonster's word for a Turnstile that is one.
	return name == "cloudflareTaskType" && string(value) == `"token"`
}

// taskKind takes a task's type apart: <kind>Task has a proxy of the
// caller's, <kind>TaskProxyless uses the service's own.
func taskKind(name string) (kind captcha.Type, enterprise, proxy, known bool) {
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

// read turns a task's parameters into the identity.
func (f *taskFields) read(o *Order, languagePool string, flavour Flavour) {
	kind, enterprise, proxy, known := taskKind(f.Type)
	if !known {
		o.Bad = CodeNotSupported
		return
	}
	if kind == captcha.GeeTest && f.Version == 4 {
		kind = captcha.GeeTestV4
	}
	id := captcha.Identity{
		Type: kind, Sitekey: f.WebsiteKey, Pageurl: f.WebsiteURL,
		Invisible: f.IsInvisible, Enterprise: enterprise || f.IsEnterprise, MinScore: f.MinScore,
		Action:    oneOf(&o.Bad, f.PageAction, f.Action, f.Metadata.Action),
		Data:      oneOf(&o.Bad, f.Data, f.CData, f.TurnstileCData, f.Metadata.CData),
		UserAgent: f.UserAgent, DataS: oneOf(&o.Bad, f.DataS, f.Payload.S), RQData: f.Payload.RQData,
		GT: f.GT, Challenge: f.Challenge, APIServer: f.APIServer,
	}
	switch kind {
	case captcha.HCaptcha: // CapMonster has it here
		id.RQData, id.Data = oneOf(&o.Bad, id.RQData, id.Data), ""
	case captcha.GeeTestV4:
		// 2captcha's name for it, and that of the others.
		id.GT, id.CaptchaID = "", f.GT
		switch flavour {
		case TwoCaptcha:
			id.CaptchaID = f.Init.CaptchaID
		case AnyClient:
			id.CaptchaID = oneOf(&o.Bad, f.GT, f.Init.CaptchaID)
		}
	}
	if proxy && (flavour != AnyClient || f.namesProxy()) {
		address := net.JoinHostPort(f.ProxyAddress, f.ProxyPort.String())
		if f.ProxyLogin != "" {
			address = f.ProxyLogin + ":" + f.ProxyPassword + "@" + address
		}
		id.Proxy, id.ProxyType = captcha.Secret(address), strings.ToLower(f.ProxyType)
	}
	o.Identity = id
	if kind == captcha.Image && o.Bad == "" {
		f.picture(o, languagePool, flavour)
	}
	if !proxy && f.namesProxy() {
		o.Undone = append(o.Undone, "proxyAddress")
	}
	if o.Bad == "" {
		o.Bad = checkIdentity(o.Identity, CodeBadParams)
	}
}

// namesProxy reports whether anything is said of a proxy.
func (f *taskFields) namesProxy() bool {
	return f.ProxyType != "" || f.ProxyAddress != "" || f.ProxyPort != "" && f.ProxyPort != "0" || f.ProxyLogin != "" || f.ProxyPassword != ""
}
