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

// TasksCall is a parsed call of the tasks protocol.
type TasksCall struct {
	Key     string
	Action  Action
	ID      string // for a Poll or Report: the id of the task, unchanged
	Verdict Verdict
	Order   Order // for a Submit: the order
	// Bad is the error code for a malformed call of any action; "" = the call is well-formed.
	Bad string
}

// tasksRequest is the body of all calls. If a field has the wrong JSON type, the call is malformed.
type tasksRequest struct {
	ClientKey    string          `json:"clientKey"`
	CallbackURL  string          `json:"callbackUrl"`
	LanguagePool string          `json:"languagePool"` // for pictures
	TaskID       json.Number     `json:"taskId"`
	Task         json.RawMessage `json:"task"`
}

// knownCall lists the known fields of a call. The fields softId and appId identify the client
// program's author, and are ignored.
var knownCall = append(jsonNames[tasksRequest](), "softid", "appid")

// tasksPaths maps the paths of the tasks protocol to their actions.
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

// IsTasksPath reports whether a path belongs to the tasks protocol.
func IsTasksPath(path string) bool {
	_, known := tasksPaths[path]
	return known
}

// ReadTasks parses a call of the tasks protocol, whose body is a JSON object. It ignores the
// Content-Type. For a malformed call, ReadTasks sets Bad and returns the parts that it could parse.
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
		c.Order.Undone = append(c.Order.Undone, unknownMembers(members, knownCall)...)
		if c.Bad != "" {
			c.Order.Bad = c.Bad
		}
	}
	return c
}

// order converts the body of createTask to an Order.
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
	o.Undone = unknownMembers(members, knownTask)
	f.read(&o, b.LanguagePool)
	if o.Pingback != "" && !isWebURL(o.Pingback) {
		o.Bad = CodeBadParams
	}
	return o
}

// unknownMembers returns the sorted names of the members that have a value and are not in knownNames.
func unknownMembers(members map[string]json.RawMessage, knownNames []string) (names []string) {
	for name, value := range members {
		if !isNoRequest(name, value) && !slices.Contains(knownNames, strings.ToLower(name)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
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
