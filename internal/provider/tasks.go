package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"poold/internal/captcha"
)

// tasks is the protocol of createTask and getTaskResult.
type tasks struct {
	key     captcha.Secret
	profile profile
}

// taskSpec is the `task` of createTask.
type taskSpec struct {
	Type         string            `json:"type"`
	WebsiteURL   string            `json:"websiteURL,omitempty"`
	WebsiteKey   string            `json:"websiteKey,omitempty"`
	IsInvisible  bool              `json:"isInvisible,omitempty"`
	IsEnterprise bool              `json:"isEnterprise,omitempty"` // v3; v2 has a type of its own
	PageAction   string            `json:"pageAction,omitempty"`   // reCAPTCHA
	MinScore     float64           `json:"minScore,omitempty"`
	DataS        string            `json:"recaptchaDataSValue,omitempty"`
	Payload      map[string]string `json:"enterprisePayload,omitempty"`
	Action       string            `json:"action,omitempty"` // Turnstile
	Data         string            `json:"data,omitempty"`
	GT           string            `json:"gt,omitempty"` // GeeTest, as what follows
	Challenge    string            `json:"challenge,omitempty"`
	APIServer    string            `json:"geetestApiServerSubdomain,omitempty"`
	Version      int               `json:"version,omitempty"`
	Init         map[string]string `json:"initParameters,omitempty"`
	UserAgent    string            `json:"userAgent,omitempty"`
	*taskPicture
	*taskProxy
}

// taskPicture is what an ImageToTextTask has of its own.
type taskPicture struct {
	Body      []byte `json:"body"` // in JSON, base64
	Numeric   int    `json:"numeric,omitempty"`
	Case      bool   `json:"case,omitempty"`
	MinLength int    `json:"minLength,omitempty"`
	MaxLength int    `json:"maxLength,omitempty"`
	Phrase    bool   `json:"phrase,omitempty"`
	Math      bool   `json:"math,omitempty"`
	Comment   string `json:"comment,omitempty"`
}

type taskProxy struct {
	Type     string `json:"proxyType"`
	Address  string `json:"proxyAddress"`
	Port     int    `json:"proxyPort"`
	Login    string `json:"proxyLogin,omitempty"`
	Password string `json:"proxyPassword,omitempty"`
}

// post makes a call. Maps of plain values always marshal.
func (t tasks) post(path string, fields map[string]any, read func([]byte) (answer, error)) query {
	fields["clientKey"] = t.key.Reveal()
	body, _ := json.Marshal(fields)
	return query{path: path, contentType: "application/json", body: string(body), read: read}
}

func (t tasks) submit(r Request) (query, error) {
	spec, err := t.spec(r)
	if err != nil {
		return query{}, err
	}
	fields := map[string]any{"task": spec}
	if r.Pingback != "" {
		fields["callbackUrl"] = r.Pingback
	}
	if language := r.Identity.Picture.Language; language != "" {
		workers, known := languagePools[language]
		if !known {
			return query{}, fmt.Errorf("the tasks protocol knows the languages en and ru alone, not %q", language)
		}
		fields["languagePool"] = workers
	}
	return t.post("/createTask", fields, readCreated), nil
}

// languagePools are the workers who read a language.
var languagePools = map[string]string{"en": "en", "ru": "rn"}

func (t tasks) spec(r Request) (taskSpec, error) {
	id := r.Identity
	spec := taskSpec{
		WebsiteURL: id.Pageurl, WebsiteKey: id.Sitekey, IsInvisible: id.Invisible,
		MinScore: id.MinScore, Data: id.Data, UserAgent: id.UserAgent,
	}
	switch id.Type {
	case captcha.RecaptchaV2:
		spec.Type, spec.PageAction, spec.DataS = "RecaptchaV2", id.Action, id.DataS
		if id.Enterprise {
			spec.Type, spec.DataS = "RecaptchaV2Enterprise", ""
			spec.Payload = payload("s", id.DataS)
		}
	case captcha.RecaptchaV3:
		spec.Type, spec.PageAction, spec.IsEnterprise = "RecaptchaV3", id.Action, id.Enterprise
	case captcha.HCaptcha:
		spec.Type, spec.IsEnterprise, spec.Payload = "HCaptcha", id.Enterprise, payload("rqdata", id.RQData)
	case captcha.Turnstile:
		spec.Type, spec.Action = "Turnstile", id.Action
	case captcha.GeeTest:
		spec.Type, spec.GT, spec.Challenge, spec.APIServer = "GeeTest", id.GT, id.Challenge, id.APIServer
	case captcha.GeeTestV4:
		spec.Type, spec.Version, spec.GT = "GeeTest", 4, id.CaptchaID
		if t.profile.name == twoCaptcha {
			spec.GT, spec.Init = "", payload("captcha_id", id.CaptchaID)
		}
	case captcha.Image:
		spec.Type, spec.taskPicture = "ImageToTextTask", pictureOf(id.Picture, r.Image)
		if id.Proxy != "" {
			return spec, errors.New("the tasks protocol has no picture with a proxy")
		}
		return spec, nil
	default:
		return spec, fmt.Errorf("the tasks protocol has no type for %q", id.Type)
	}
	spec.Type += "Task"
	if id.Proxy == "" {
		spec.Type += "Proxyless"
		return spec, nil
	}
	proxy, ok := splitProxy(id.Proxy.Reveal(), id.ProxyType)
	if !ok {
		return spec, errors.New("the proxy is not [user:password@]host:port")
	}
	spec.taskProxy = proxy
	return spec, nil
}

// payload is an object of one field, nil where that says nothing.
func payload(name, value string) map[string]string {
	if value == "" {
		return nil
	}
	return map[string]string{name: value}
}

func pictureOf(p captcha.Picture, image []byte) *taskPicture {
	return &taskPicture{
		Body: image, Numeric: charsetNumber(p.Charset), Case: p.CaseSensitive, MinLength: p.MinLength,
		MaxLength: p.MaxLength, Phrase: p.Phrase, Math: p.Math, Comment: p.Instructions,
	}
}

// splitProxy takes a proxy apart. A password may hold '@' and ':'.
func splitProxy(text, kind string) (*taskProxy, bool) {
	p := &taskProxy{Type: strings.ToLower(kind)}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		p.Login, p.Password, _ = strings.Cut(text[:at], ":")
		text = text[at+1:]
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return nil, false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	p.Address, p.Port = host, int(n)
	return p, err == nil && n > 0
}

func (t tasks) poll(task string, id captcha.Identity) query {
	return t.post("/getTaskResult", naming(task), func(reply []byte) (answer, error) {
		a, err := readResult(reply, id.Type)
		if err == nil && a.text != "" && t.profile.name == otherPoold {
			a.sinceSubmit, a.dated = readAge(reply)
		}
		return a, err
	})
}

// naming is a call's reference to a task. Its id is kept as text; services
// that count want their number back.
func naming(task string) map[string]any {
	if n, err := strconv.ParseInt(task, 10, 64); err == nil && strconv.FormatInt(n, 10) == task {
		return map[string]any{"taskId": n}
	}
	return map[string]any{"taskId": task}
}

func (t tasks) balance() query {
	return t.post("/getBalance", map[string]any{}, readTasksBalance)
}

func (t tasks) threads() (query, bool) { return query{}, false }

// report has one pair of paths at 2captcha, for every type. The others have
// what anti-captcha has: reCAPTCHA's, and bad news about hCaptcha and pictures.
func (t tasks) report(task string, kind captcha.Type, good bool) (query, bool) {
	path := "/reportIncorrect"
	if good {
		path = "/reportCorrect"
	}
	switch {
	case t.profile.name == twoCaptcha, t.profile.name == otherPoold:
	case kind == captcha.RecaptchaV2, kind == captcha.RecaptchaV3:
		path += "Recaptcha"
	case kind == captcha.HCaptcha && !good:
		path += "Hcaptcha"
	case kind == captcha.Image && !good:
		path += "ImageCaptcha"
	default:
		return query{}, false
	}
	return t.post(path, naming(task), func(reply []byte) (answer, error) {
		_, a, err := parseTasks(reply)
		return reported(a, err)
	}), true
}

// tasksReply is an answer of the tasks protocol.
type tasksReply struct {
	ErrorID   json.RawMessage `json:"errorId"`
	ErrorCode json.RawMessage `json:"errorCode"`
	Status    json.RawMessage `json:"status"`
	TaskID    json.RawMessage `json:"taskId"`
	Solution  json.RawMessage `json:"solution"`
	Balance   json.RawMessage `json:"balance"`
}

func readCreated(reply []byte) (answer, error) {
	r, a, err := parseTasks(reply)
	if err != nil || a.code != "" {
		return a, err
	}
	task, sane := taskID(r.TaskID)
	if a.notReady || !sane {
		return answer{}, oddReply
	}
	return answer{text: task}, nil
}

func readResult(reply []byte, kind captcha.Type) (answer, error) {
	r, a, err := parseTasks(reply)
	if err != nil || a.code != "" || a.notReady {
		return a, err
	}
	switch quoted(r.Status) {
	case "processing", "idle":
		return answer{notReady: true}, nil
	case "failed":
		return answer{code: "status failed"}, nil
	case "ready":
	default:
		return answer{}, oddReply
	}
	var s struct {
		Recaptcha json.RawMessage `json:"gRecaptchaResponse"`
		Token     json.RawMessage `json:"token"`
		Text      json.RawMessage `json:"text"`
		UserAgent json.RawMessage `json:"userAgent"`
	}
	if json.Unmarshal(r.Solution, &s) != nil {
		return answer{}, oddReply
	}
	text, other := quoted(s.Recaptcha), quoted(s.Token)
	switch {
	case captcha.HasNamed(kind):
		text = named(kind, r.Solution)
	case kind == captcha.Image: // digits may come as a number
		text = plain(s.Text)
	case kind == captcha.Turnstile && other != "", text == "":
		text = other
	}
	return solution(kind, text, agent(s.UserAgent))
}

// mostAge bounds what a service says of a token's birth.
const mostAge = 24 * time.Hour

// readAge reads when a token was solved, relative to its task: both times are the service's,
// in whole seconds that are rounded so that the token is no older than said.
func readAge(reply []byte) (sinceSubmit time.Duration, told bool) {
	var times struct {
		CreateTime int64 `json:"createTime"`
		EndTime    int64 `json:"endTime"`
	}
	if decode(bytes.TrimSpace(reply), &times) != nil || times.CreateTime <= 0 || times.EndTime <= 0 {
		return 0, false
	}
	since := times.EndTime - times.CreateTime
	if limit := int64(mostAge / time.Second); since < -limit || since > limit {
		return 0, false
	}
	return time.Duration(since) * time.Second, true
}

func readTasksBalance(reply []byte) (answer, error) {
	r, a, err := parseTasks(reply)
	if err != nil || a.code != "" {
		return a, err
	}
	n, ok := finite(plain(r.Balance))
	if !ok {
		return answer{}, oddReply
	}
	return answer{number: n}, nil
}

// parseTasks reads the envelope. In the answer only code or notReady are set;
// both empty means that the call was granted.
func parseTasks(reply []byte) (tasksReply, answer, error) {
	var r tasksReply
	reply, err := sniff(reply)
	if err != nil {
		return r, answer{}, err
	}
	if err := decode(reply, &r); err != nil {
		return r, answer{}, err
	}
	id, code := plain(r.ErrorID), plain(r.ErrorCode)
	switch {
	case id == "0", id == "" && code == "":
		return r, answer{}, nil
	case code == "":
		if code = codeOf(id); code == "" {
			code = "errorId " + id
		}
	}
	return r, refusal(code), nil
}
