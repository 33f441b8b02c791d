package wire

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"poold/internal/captcha"
	"poold/internal/strictjson"
)

// createTaskRequest is the body of every call. If a field has the wrong JSON type, the call is
// malformed.
type createTaskRequest struct {
	ClientKey    string          `json:"clientKey"`
	CallbackURL  string          `json:"callbackUrl"`
	LanguagePool string          `json:"languagePool"` // for pictures
	TaskID       json.Number     `json:"taskId"`
	Task         json.RawMessage `json:"task"`
}

// createTaskPaths maps the paths of the protocol create_task to calls without content.
var createTaskPaths = func() map[string]Call {
	paths := map[string]Call{
		"/createTask": {Action: Submit}, "/getTaskResult": {Action: Poll}, "/getBalance": {Action: Balance},
		"/reportCorrect": {Action: Report, Good: true}, "/reportIncorrect": {Action: Report},
		"/reportIncorrectTokenCaptcha": {Action: Report},
	}
	for _, kind := range captcha.Kinds {
		for _, accepted := range []bool{false, true} {
			if path, offered := ReportPath(kind.Type, accepted); offered {
				paths[path] = Call{Action: Report, Good: accepted}
			}
		}
	}
	return paths
}()

// ReportPath returns the path of anti-captcha and its copies for a report about a type of CAPTCHA. They take good
// reports only about reCAPTCHA.
func ReportPath(t captcha.Type, accepted bool) (path string, offered bool) {
	word := captcha.Of(t).Report
	if accepted {
		return "/reportCorrect" + word, word == "Recaptcha"
	}
	return "/reportIncorrect" + word, word != ""
}

// CreateTaskPaths lists the paths of the protocol create_task.
func CreateTaskPaths() []string { return slices.Sorted(maps.Keys(createTaskPaths)) }

// IsCreateTaskPath reports whether a path belongs to the protocol create_task.
func IsCreateTaskPath(path string) bool {
	_, known := createTaskPaths[path]
	return known
}

// readCreateTask parses a call of the protocol create_task. The body of the call is a JSON object, whatever the
// Content-Type says.
func readCreateTask(r Request) Call {
	c := createTaskPaths[r.Path]
	var body createTaskRequest
	var members map[string]json.RawMessage
	err := json.NewDecoder(bytes.NewReader(r.Body)).Decode(&body)
	if err == nil {
		err = errors.Join(json.Unmarshal(r.Body, &members), strictjson.Check(r.Body))
	}
	if _, mixed := members["key"]; mixed || err != nil {
		c.Bad = CodeBadParams
	}
	c.Key, c.IDs = body.ClientKey, []string{body.TaskID.String()}
	c.Text = bytes.HasPrefix(members["taskId"], []byte(`"`)) || bytes.Contains(body.Task, []byte(`ProxyLess"`))
	if c.Action == Submit {
		c.Order = body.order()
		names := map[string]string{}
		delete(members, "task")
		flatten("", members, map[string]string{}, names)
		c.Order.addUnknown(names, strings.Fields("clientkey callbackurl languagepool taskid"))
	}
	return c
}

// order converts the body of createTask to a Submission. If the task type requires a proxy and the task contains none,
// the identity has no proxy.
func (b *createTaskRequest) order() Submission {
	o := Submission{CallbackURL: b.CallbackURL}
	var members map[string]json.RawMessage
	switch {
	case len(b.Task) == 0 || string(b.Task) == "null":
		o.refuse(CodeTaskAbsent, "")
		return o
	case json.Unmarshal(b.Task, &members) != nil:
		o.refuse(CodeBadParams, "task")
		return o
	}
	texts, names := map[string]string{}, map[string]string{}
	flatten("", members, texts, names)
	get := func(name string) string { return texts[strings.ToLower(name)] }

	id := &o.Identity
	word, proxyless := strings.CutSuffix(strings.ToLower(get("type")), "proxyless")
	word, isTask := strings.CutSuffix(word, "task")
	word, enterprise := strings.CutSuffix(word, "enterprise")
	id.Type = typeOf(func(k captcha.Kind) []captcha.Name { return k.CreateTask }, get("version"),
		func(name string) bool { return strings.EqualFold(name, word) })
	kind := captcha.Of(id.Type)
	onPage := kind.Has("pageurl")
	if !isTask || id.Type == "" || enterprise && !kind.Has("enterprise") || proxyless && !onPage {
		id.Type = ""
		o.refuse(CodeNotSupported, "type")
		return o
	}
	known := strings.Fields("type version body languagepool proxytype proxyaddress proxyport proxylogin proxypassword")
	for _, name := range o.read(func(f captcha.Field) string { return f.CreateTask }, get) {
		known = append(known, strings.ToLower(name))
	}
	id.Enterprise = id.Enterprise || enterprise
	proxy := captcha.Proxy{
		Address: get("proxyAddress"), Port: json.Number(get("proxyPort")), Login: get("proxyLogin"),
		Password: get("proxyPassword"),
	}
	switch proxyType := get("proxyType"); {
	case proxyType == "" && proxy == captcha.Proxy{}:
	case proxyless || !onPage:
		o.Undone = append(o.Undone, "proxyAddress")
	default:
		id.Proxy, id.ProxyType = proxy.Text(), strings.ToLower(proxyType)
	}
	if !onPage {
		o.readPicture(base64.StdEncoding.DecodeString(get("body")))
		// The clients of anti-captcha send it inside the task.
		pool, spoken := cmp.Or(b.LanguagePool, get("languagePool")), false
		for language, itsPool := range languagePools {
			if itsPool == pool {
				id.Picture.Language, spoken = language, true
			}
		}
		if !spoken {
			o.refuse(CodeBadParams, "languagePool")
		}
	}
	o.addUnknown(names, known)
	return o
}

// flatten collects the members of an object, and of the objects inside it, that request something. Under the path of a
// member in lower case, such as enterprisepayload.s, it stores two things: the member's text, and the path as it was
// sent. Names are compared without regard to case, as encoding/json does.
func flatten(path string, members map[string]json.RawMessage, texts, names map[string]string) {
	for name, value := range members {
		if isNoRequest(name, value) {
			continue
		}
		sent := path + name
		at := strings.ToLower(sent)
		var text string
		var inner map[string]json.RawMessage
		switch {
		case json.Unmarshal(value, &text) == nil:
		case value[0] == '[' || value[0] == '{':
			text = unreadable
			_ = json.Unmarshal(value, &inner) // fails for a list
			flatten(sent+".", inner, texts, names)
		default: // a number or a boolean
			text = string(value)
		}
		if texts[at] = text; inner == nil {
			names[at] = sent
		}
	}
}

// languagePools maps languages to the names of the worker pools in the protocol create_task.
var languagePools = map[string]string{"": "", "en": "en", "ru": "rn"}

// CreateTaskBody returns the body of createTask for a service, without the key. The argument image is
// nil except for pictures. The error names what the protocol cannot express, and quotes no secret.
func CreateTaskBody(id captcha.Identity, image []byte, callbackURL string, service string) (map[string]any, error) {
	kind := captcha.Of(id.Type)
	name := sentName(kind.CreateTask, service)
	if err := checkExpressible(&id, name); err != nil {
		return nil, err
	}
	task := map[string]any{}
	if name.Version != "" {
		task["version"] = json.Number(name.Version)
	}
	ending := map[bool]string{true: "TaskProxyLess", false: "TaskProxyless"}[service == "capsolver"]
	if id.Enterprise && (kind.EnterpriseTask || service == "capsolver") {
		name.Name, service, id.Enterprise = name.Name+"Enterprise", "enterprise", false
	}
	for _, field := range kind.Fields {
		for _, path := range captcha.Sent(field.CreateTask, service) {
			if field.Key == "" {
				continue
			}
			into, value := task, value(id.Ptr(field.Key))
			if object, member, nested := strings.Cut(path, "."); nested && value != nil {
				inner, _ := task[object].(map[string]any)
				if inner == nil {
					inner = map[string]any{}
				}
				task[object], into, path = inner, inner, member
			}
			if value != nil {
				into[path] = value
			}
		}
	}
	task["type"] = name.Name + ending
	if id.Proxy != "" || !kind.Has("pageurl") {
		task["type"] = name.Name + "Task"
	}
	if id.Proxy != "" {
		p, valid := captcha.SplitProxy(id.Proxy)
		if !valid {
			return nil, errors.New("the proxy is not [user:password@]host:port")
		}
		task["proxyType"], task["proxyAddress"], task["proxyPort"] = strings.ToLower(id.ProxyType), p.Address, p.Port
		if p.Login != "" {
			task["proxyLogin"], task["proxyPassword"] = p.Login, p.Password
		}
	}
	if id.Type == captcha.Image {
		task["body"] = base64.StdEncoding.EncodeToString(image)
	}
	fields := map[string]any{"task": task}
	if callbackURL != "" {
		fields["callbackUrl"] = callbackURL
	}
	switch pool, known := languagePools[id.Picture.Language]; {
	case !known:
		return nil, fmt.Errorf("the protocol has only the languages en and ru, not %q", id.Picture.Language)
	case pool != "":
		fields["languagePool"] = pool
	}
	return fields, nil
}

// harmless lists members, in lower case, that change neither the solution nor how the client gets it. They name the
// author of the client program or concern the service's own statistics and caches.
var harmless = []string{"softid", "appid", "revenuesharetronaddress", "nocache", "recognizingthreshold"}

// addUnknown adds the sent names of unknown members to o.Undone. For an unknown object, it adds only the object's name.
func (o *Submission) addUnknown(sent map[string]string, known []string) {
	for lower, name := range sent {
		object, _, nested := strings.Cut(lower, ".")
		if nested && !slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(k, object+".") }) {
			name, _, _ = strings.Cut(name, ".")
		}
		if !slices.Contains(harmless, lower) && !slices.Contains(known, lower) {
			o.Undone = append(o.Undone, name)
		}
	}
	slices.Sort(o.Undone)
	o.Undone = slices.Compact(o.Undone)
}

// isNoRequest reports whether the value of an unknown field requests nothing, so that a service can
// ignore it.
func isNoRequest(name string, value json.RawMessage) bool {
	switch string(value) {
	case `""`, "0", "false", "null", "[]", "{}":
		return true
	}
	// CapMonster's clients send this default value for a Turnstile.
	return name == "cloudflareTaskType" && string(value) == `"token"`
}
