package wire

import (
	"bytes"
	"encoding/json"
	"errors"
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
	// Bad is the code for a call of any action that could not be read; "" = it could.
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

// knownCall are the fields of a call. softId and appId name the author of the client.
var knownCall = append(jsonNames[tasksRequest](), "softid", "appid")

// tasksPaths are the paths of the protocol, with their actions.
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

// IsTasksPath reports whether the protocol has a path.
func IsTasksPath(path string) bool {
	_, known := tasksPaths[path]
	return known
}

// ReadTasks reads a call of the tasks protocol: a JSON object with any Content-Type. A bad call is
// returned as far as it could be read.
func ReadTasks(r Request) TasksCall {
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
		c.Order = body.order()
		c.Order.Undone = append(c.Order.Undone, unknown(members, knownCall)...)
		if c.Bad != "" {
			c.Order.Bad = c.Bad
		}
	}
	return c
}

// order reads the content of createTask.
func (b *tasksRequest) order() Order {
	o := Order{Pingback: b.CallbackURL}
	if len(b.Task) == 0 || string(b.Task) == "null" {
		o.Bad = CodeTaskAbsent
		return o
	}
	var f Task
	var members map[string]json.RawMessage
	if json.Unmarshal(b.Task, &f) != nil || json.Unmarshal(b.Task, &members) != nil {
		o.Bad = CodeBadParams
		return o
	}
	o.Undone = unknown(members, knownTask)
	f.read(&o, b.LanguagePool)
	if o.Pingback != "" && !isWebURL(o.Pingback) {
		o.Bad = CodeBadParams
	}
	return o
}

// unknown returns the members that are set and not known, sorted.
func unknown(members map[string]json.RawMessage, known []string) (names []string) {
	for name, value := range members {
		if !isNothing(name, value) && !slices.Contains(known, strings.ToLower(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isNothing reports whether an unknown field asks for nothing.
func isNothing(name string, value json.RawMessage) bool {
	switch string(value) {
	case `""`, "0", "false", "null", "[]", "{}":
		return true
	}
	// CapMonster's default for a Turnstile.
	return name == "cloudflareTaskType" && string(value) == `"token"`
}
