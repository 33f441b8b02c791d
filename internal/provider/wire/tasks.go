package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
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

// tasksRequest is the body of every call. If a field has the wrong JSON type, the call is
// malformed.
type tasksRequest struct {
	ClientKey    string          `json:"clientKey"`
	CallbackURL  string          `json:"callbackUrl"`
	LanguagePool string          `json:"languagePool"` // for pictures
	TaskID       json.Number     `json:"taskId"`
	Task         json.RawMessage `json:"task"`
}

// knownCall lists the fields of a call that ReadTasks reads, in lower case.
var knownCall = jsonNames[tasksRequest]()

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

// ReadTasks parses a call of the tasks protocol. The body of the call is a JSON object. ReadTasks
// ignores the Content-Type. For a malformed call, it sets Bad and returns the parts that it could
// parse.
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
		c.Order.sortMembers(members, knownCall)
		if c.Bad != "" {
			c.Order.Bad, c.Order.BadField = c.Bad, ""
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
	var members map[string]json.RawMessage
	if json.Unmarshal(b.Task, &members) != nil {
		o.Bad, o.BadField = CodeBadParams, "task"
		return o
	}
	f, err := decodeTask(b.Task, members)
	if err != nil {
		o.Bad = CodeBadParams
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			o.BadField = wrong.Field
		}
		return o
	}
	f.read(&o, b.LanguagePool)
	o.sortMembers(members, knownTask)
	if o.Pingback != "" && !isWebURL(o.Pingback) {
		o.refuse(CodeBadParams, "callbackUrl")
	}
	return o
}

// decodeTask decodes the object `task`. The argument members contains the members of the same
// object. Some clients, such as anticaptchaofficial for Python, send false or 0 for an unset field
// of any type. In this case decodeTask leaves out all members that request nothing.
func decodeTask(object json.RawMessage, members map[string]json.RawMessage) (t Task, err error) {
	if err = json.Unmarshal(object, &t); err == nil {
		return t, nil
	}
	set := maps.Clone(members)
	maps.DeleteFunc(set, isNoRequest)
	t = Task{}
	return t, json.Unmarshal(strictjson.Encode(set), &t)
}

// sortMembers adds the names of the members that have a value but no effect to o.Ignored, and the
// names of unknown members with a value to o.Undone.
func (o *Order) sortMembers(members map[string]json.RawMessage, knownNames []string) {
	for name, value := range members {
		switch lower := strings.ToLower(name); {
		case isNoRequest(name, value):
		case slices.Contains(harmlessTasks, lower):
			o.Ignored = append(o.Ignored, name)
		case !slices.Contains(knownNames, lower):
			o.Undone = append(o.Undone, name)
		}
	}
	slices.Sort(o.Undone)
	slices.Sort(o.Ignored)
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
