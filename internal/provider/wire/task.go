package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"poold/internal/captcha"
)

// Task is the object `task` of createTask. CreateTask writes a Task and ReadTasks parses a Task.
// ReadTasks also accepts the names that other services use, which taskAliases lists.
type Task struct {
	Type         string  `json:"type"`
	WebsiteURL   string  `json:"websiteURL,omitempty"`
	WebsiteKey   string  `json:"websiteKey,omitempty"`
	IsInvisible  flag    `json:"isInvisible,omitempty"`
	IsEnterprise flag    `json:"isEnterprise,omitempty"` // for reCAPTCHA v3 and hCaptcha; reCAPTCHA v2 has a separate task type
	MinScore     float64 `json:"minScore,omitempty"`
	PageAction   string  `json:"pageAction,omitempty"` // for reCAPTCHA
	Action       string  `json:"action,omitempty"`     // for Turnstile
	Data         string  `json:"data,omitempty"`       // for Turnstile
	DataS        string  `json:"recaptchaDataSValue,omitempty"`
	Payload      struct {
		S      string `json:"s,omitempty"`
		RQData string `json:"rqdata,omitempty"`
	} `json:"enterprisePayload,omitzero"`
	GT        string `json:"gt,omitempty"`
	Challenge string `json:"challenge,omitempty"`
	APIServer string `json:"geetestApiServerSubdomain,omitempty"`
	Version   int    `json:"version,omitempty"` // the version of a GeeTest
	Init      struct {
		CaptchaID string `json:"captcha_id,omitempty"` // field of 2captcha for a GeeTest v4; other services use the field gt
	} `json:"initParameters,omitzero"`
	Body      string `json:"body,omitempty"` // a picture in base64; the following fields also belong to pictures
	Numeric   int    `json:"numeric,omitempty"`
	Case      flag   `json:"case,omitempty"`
	MinLength int    `json:"minLength,omitempty"`
	MaxLength int    `json:"maxLength,omitempty"`
	Phrase    flag   `json:"phrase,omitempty"`
	Math      flag   `json:"math,omitempty"`
	Comment   string `json:"comment,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
	Proxy
	taskAliases
}

// taskAliases contains the names that other services use for fields of a Task.
type taskAliases struct {
	CData          string `json:"cData,omitempty"`
	TurnstileCData string `json:"turnstileCData,omitempty"`
	Metadata       struct {
		Action string `json:"action"`
		CData  string `json:"cdata"`
	} `json:"metadata,omitzero"`
	LanguagePool string `json:"languagePool,omitempty"` // the clients of anti-captcha send this field inside the task
}

// knownTask lists the fields of a task that ReadTasks reads. The names are in lower case, because
// encoding/json compares names without regard to case.
var knownTask = jsonNames[Task]()

// jsonNames returns the JSON names of the fields of a struct, in lower case.
func jsonNames[T any]() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, strings.ToLower(name))
		}
	}
	return names
}

// taskNames lists the stems from which the names of task types are formed. A client uses the first
// stem for a type of CAPTCHA.
var taskNames = []struct {
	stem string
	kind captcha.Type
}{
	{"RecaptchaV2", captcha.RecaptchaV2}, {"NoCaptcha", captcha.RecaptchaV2}, {"RecaptchaV3", captcha.RecaptchaV3},
	{"HCaptcha", captcha.HCaptcha}, {"Turnstile", captcha.Turnstile}, {"AntiTurnstile", captcha.Turnstile},
	{"GeeTest", captcha.GeeTest}, {"GeeTest", captcha.GeeTestV4}, {"ImageToText", captcha.Image},
}

// CreateTask returns the body of createTask for a service, without the key. The argument image is
// nil except for pictures. The error names what the protocol cannot express, and quotes no secret.
func CreateTask(id captcha.Identity, image []byte, pingback string, service string) (map[string]any, error) {
	p := id.Picture
	t := Task{
		WebsiteURL: id.Pageurl, WebsiteKey: id.Sitekey, IsInvisible: flag(id.Invisible), MinScore: id.MinScore, Data: id.Data,
		GT: id.GT, Challenge: id.Challenge, APIServer: id.APIServer, UserAgent: id.UserAgent,
		Body: base64.StdEncoding.EncodeToString(image), Numeric: max(0, slices.Index(charsets, p.Charset)),
		Case: flag(p.CaseSensitive), MinLength: p.MinLength, MaxLength: p.MaxLength, Phrase: flag(p.Phrase), Math: flag(p.Math), Comment: p.Instructions,
	}
	for _, name := range taskNames {
		if name.kind == id.Type {
			t.Type = name.stem
			break
		}
	}
	switch id.Type {
	case captcha.RecaptchaV2:
		t.PageAction, t.DataS = id.Action, id.DataS
		if id.Enterprise {
			t.Type, t.DataS, t.Payload.S = t.Type+"Enterprise", "", id.DataS
		}
	case captcha.RecaptchaV3:
		t.PageAction, t.IsEnterprise = id.Action, flag(id.Enterprise)
	case captcha.HCaptcha:
		t.IsEnterprise, t.Payload.RQData = flag(id.Enterprise), id.RQData
	case captcha.Turnstile:
		t.Action = id.Action
	case captcha.GeeTestV4:
		t.Version, t.GT = 4, id.CaptchaID
		if service == twoCaptcha {
			t.GT, t.Init.CaptchaID = "", id.CaptchaID
		}
	}
	pool, known := languagePools[p.Language]
	switch {
	case t.Type == "":
		return nil, fmt.Errorf("the tasks protocol has no type for %q", id.Type)
	case !known:
		return nil, fmt.Errorf("the tasks protocol has only the languages en and ru, not %q", p.Language)
	case id.Type == captcha.Image && id.Proxy != "":
		return nil, errors.New("the tasks protocol has no picture with a proxy")
	case id.Type == captcha.Image, id.Proxy != "":
		t.Type += "Task"
	default:
		t.Type += "TaskProxyless"
	}
	if id.Proxy != "" {
		if t.Proxy, known = SplitProxy(id.Proxy.Reveal()); !known {
			return nil, errors.New("the proxy is not [user:password@]host:port")
		}
		t.Kind = strings.ToLower(id.ProxyType)
	}
	fields := map[string]any{"task": t}
	if pingback != "" {
		fields["callbackUrl"] = pingback
	}
	if pool != "" {
		fields["languagePool"] = pool
	}
	return fields, nil
}

// taskKind parses the name of a task type. A <stem>Task uses the caller's proxy. A
// <stem>TaskProxyless uses the service's proxies. For an unknown name taskKind returns "" as the
// kind.
func taskKind(name string) (kind captcha.Type, enterprise, proxy bool) {
	stem, proxyless := strings.CutSuffix(strings.ToLower(name), "taskproxyless")
	if !proxyless {
		if stem, proxy = strings.CutSuffix(stem, "task"); !proxy {
			return "", false, false
		}
	}
	stem, enterprise = strings.CutSuffix(stem, "enterprise")
	for _, row := range taskNames {
		if strings.EqualFold(row.stem, stem) {
			kind = row.kind
			break
		}
	}
	if kind == captcha.Image { // the only valid name is ImageToTextTask
		if enterprise || proxyless {
			return "", false, false
		}
		proxy = false
	}
	return kind, enterprise, proxy
}

// read copies the fields of the task to the order's identity. If the task type requires a proxy
// and the task contains none, the identity has no proxy.
func (t *Task) read(o *Order, languagePool string) {
	kind, enterprise, proxy := taskKind(t.Type)
	if kind == "" {
		o.Bad, o.BadField = CodeNotSupported, "type"
		return
	}
	if kind == captcha.GeeTest && t.Version == 4 {
		kind = captcha.GeeTestV4
	}
	id := captcha.Identity{
		Type: kind, Sitekey: t.WebsiteKey, Pageurl: t.WebsiteURL,
		Invisible: bool(t.IsInvisible), Enterprise: enterprise || bool(t.IsEnterprise), MinScore: t.MinScore,
		Action:    oneOf(&o.Bad, t.PageAction, t.Action, t.Metadata.Action),
		Data:      oneOf(&o.Bad, t.Data, t.CData, t.TurnstileCData, t.Metadata.CData),
		UserAgent: t.UserAgent, DataS: oneOf(&o.Bad, t.DataS, t.Payload.S), RQData: t.Payload.RQData,
		GT: t.GT, Challenge: t.Challenge, APIServer: t.APIServer,
	}
	switch kind {
	case captcha.HCaptcha: // CapMonster sends the value of rqdata in the field `data`
		id.RQData, id.Data = oneOf(&o.Bad, id.RQData, id.Data), ""
	case captcha.GeeTestV4:
		id.GT, id.CaptchaID = "", oneOf(&o.Bad, t.GT, t.Init.CaptchaID)
	}
	sent := t.Proxy
	if proxy && sent.isSet() {
		id.Proxy, id.ProxyType = captcha.Secret(sent.text()), strings.ToLower(sent.Kind)
	}
	languagePool = oneOf(&o.Bad, languagePool, t.LanguagePool)
	switch {
	case kind != captcha.Image && languagePool != "":
		o.Ignored = append(o.Ignored, "languagePool")
	case kind == captcha.Image && id.Pageurl != "":
		id.Pageurl = ""
		o.Ignored = append(o.Ignored, "websiteURL") // anti-captcha uses the field only for statistics
	}
	o.Identity = id
	if kind == captcha.Image {
		t.picture(o, languagePool)
	}
	if !proxy && sent.isSet() {
		o.Undone = append(o.Undone, "proxyAddress")
	}
	o.refuse(checkIdentity(o.Identity))
	o.Bad = TasksCode(o.Bad)
}
