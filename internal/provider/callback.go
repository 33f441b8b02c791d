package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"poold/internal/captcha"
	"poold/internal/strictjson"
)

// ErrCallback is the error for an unreadable callback. In this case only a poll can find out the state
// of the task.
var ErrCallback = errors.New("provider: unreadable callback")

// Callback is the content of a callback request: either the token of a task or an error.
type Callback struct {
	Task string // the task's id; "" if the callback has no id
	// Solution is zero if Err is set. A callback does not contain the type of CAPTCHA, so the caller
	// must check the token with IsAnswer.
	Solution Solution
	// Err says why the task ended without a token. It is an *Error of class Task, or of class
	// Parameters if the service's code means wrong parameters. The class is never Capacity or Account,
	// because a callback concerns only one task.
	Err error
}

// ReadCallback reads a callback of any service. The callback is the query of a GET, or a form or a JSON object in the
// body. If there is a body, the query is ignored. A JSON object either has the fields id and code, or has the form of a
// response to getTaskResult. Content types are ignored, because services send wrong ones. An error wraps ErrCallback
// and quotes no part of the callback. The caller must first check that the sender knows a secret.
func ReadCallback(query url.Values, body []byte) (Callback, error) {
	fields := map[string]json.RawMessage{} // by their names in lower case
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	switch {
	case len(body) > maxReply:
		return Callback{}, unreadable("too long")
	case len(body) > 0 && body[0] == '{':
		var members map[string]json.RawMessage
		if !utf8.Valid(body) || strictjson.Check(body) != nil || json.Unmarshal(body, &members) != nil {
			return Callback{}, unreadable("not a well-formed JSON object")
		}
		for name, value := range members {
			fields[strings.ToLower(name)] = value
		}
	default:
		if len(body) > 0 {
			var err error
			if query, err = url.ParseQuery(string(body)); err != nil { // it would quote the body
				return Callback{}, unreadable("not a well-formed form")
			}
		}
		for name, values := range query {
			fields[strings.ToLower(name)], _ = json.Marshal(values[0]) // of a string: no error is possible
		}
	}
	return readFields(fields)
}

// unreadable returns the error for a callback that cannot be read. The reason quotes no part of the callback.
func unreadable(reason string) error { return fmt.Errorf("%w: %s", ErrCallback, reason) }

// readFields reads the fields of all services. Others are ignored.
func readFields(fields map[string]json.RawMessage) (c Callback, err error) {
	for _, name := range []string{"id", "captcha_id", "taskid"} {
		if id := textOrDigits(fields[name]); id != "" && id != "0" && c.Task == "" {
			created, err := createdAnswer(fields[name])
			if err != nil {
				return Callback{}, unreadable("the id is not a task id")
			}
			c.Task = created.text
		}
	}
	members := map[string]json.RawMessage{
		"userAgent": fields["useragent"], "user_agent": fields["user_agent"], "respKey": fields["respkey"],
	}
	solution := fields["solution"]
	_ = json.Unmarshal(solution, &members) // adds the members of getTaskResult's solution, if there is one
	code := jsonText(fields["code"])
	token := cmp.Or(code, namedValues(captcha.GeeTest, solution), namedValues(captcha.GeeTestV4, solution),
		jsonText(members["gRecaptchaResponse"]), jsonText(members["token"]), jsonText(members["text"]))
	status, refused := textOrDigits(fields["status"]), refusedBy(fields["errorid"], fields["errorcode"])
	_, _, known := profile("").meaning(code)
	if refused == "" && (known || isLink(code) || strings.HasPrefix(code, "ERROR")) {
		refused, token = code, ""
	}
	switch {
	case isNotReady(refused), isNotReady(code), refused == "" && (status == "processing" || status == "idle"):
		return Callback{}, unreadable("the task is not ready")
	case refused == "" && (status == "failed" || status == "0" && c.Task != ""):
		refused = "status " + status // without a reason; 0 says so only beside an id
	}
	switch {
	case refused != "" && token != "":
		return Callback{}, unreadable("a refusal with a token")
	case refused != "":
		e := profile("").asError(refused)
		if e.Delay = 0; e.Class != Parameters {
			e.Class, e.Err = Task, nil
		}
		return Callback{Task: c.Task, Err: e}, nil
	case !captcha.IsReadable(token, maxReply):
		return Callback{}, unreadable("no readable token")
	}
	c.Solution = Solution{token, captcha.NewExtra(members, "expiretime"), expiry(textOrDigits(members["expireTime"]))}
	return c, nil
}
