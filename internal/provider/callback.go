package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
	"poold/internal/strictjson"
)

// ErrCallback is the error for an unreadable pingback. In this case only a poll can find out the state
// of the task.
var ErrCallback = errors.New("provider: unreadable callback")

// Callback is the content of a pingback: either the token of a task or an error.
type Callback struct {
	Task string // the task's id; "" if the pingback has no id
	// Solution is zero if Err is set. A pingback does not contain the type of CAPTCHA, so the caller
	// must check the token with IsAnswer.
	Solution Solution
	// Err says why the task ended without a token. It is an *Error of class Task, or of class
	// Parameters if the service's code means wrong parameters. The class is never Capacity or Account,
	// because a pingback concerns only one task.
	Err error
}

// ReadCallback reads a pingback of any service: the query of a GET, or a form or a JSON object in the
// body, which counts instead of the query. A JSON object either has the fields id and code, or has the
// form of a response to getTaskResult. Content types are ignored, because services send wrong ones. An
// error wraps ErrCallback and quotes no part of the pingback. The caller must first check that the
// sender knows a secret.
func ReadCallback(query url.Values, body []byte) (Callback, error) {
	f := callbackFields{}
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	var err error
	switch {
	case len(body) > maxReply:
		err = unreadable("too long")
	case len(body) == 0:
		err = f.readForm(query)
	case body[0] == '{':
		err = f.readJSON(body, fieldNames)
	default:
		form, bad := url.ParseQuery(string(body))
		if err = f.readForm(form); bad != nil {
			err = unreadable("not a well-formed form") // the library's error would quote the body
		}
	}
	if err != nil {
		return Callback{}, err
	}
	return f.callback()
}

// unreadable returns the error for a pingback that cannot be read. The reason quotes no part of the pingback.
func unreadable(reason string) error { return fmt.Errorf("%w: %s", ErrCallback, reason) }

// callbackFields maps the common field names to the non-empty values of a pingback.
type callbackFields map[string]string

// fieldNames maps the field names of all services, in lower case, to common names. Other fields are
// ignored.
var fieldNames = map[string]string{
	"id": "id", "captcha_id": "id", "taskid": "id",
	"code": "code", "status": "status", "errorid": "errorid", "errorcode": "errorcode",
	"useragent": "agent", "user_agent": "agent", "respkey": "respkey",
	"solution": "solution", // an object in a JSON pingback
}

// solutionNames maps the members of the object `solution` to common names. If several members have
// the same common name, their values must be equal.
var solutionNames = map[string]string{
	"grecaptcharesponse": "token", "token": "token", "text": "token",
}

// add stores the value of a field. It returns an error if the field already has a different value.
func (f callbackFields) add(name, value string) error {
	switch old, known := f[name]; {
	case value == "" || old == value && known:
		return nil
	case known:
		return unreadable("a field has two values")
	case strings.ContainsRune(value, utf8.RuneError): // the encoder and the decoder of JSON replace invalid bytes
		return unreadable("not UTF-8")
	}
	f[name] = value
	return nil
}

func (f callbackFields) readForm(values url.Values) error {
	for key, list := range values {
		for _, value := range list {
			text, _ := json.Marshal(value) // of a string: no error is possible
			if err := f.addMember(fieldNames[strings.ToLower(key)], text); err != nil {
				return err
			}
		}
	}
	return nil
}

// readJSON stores the members of a JSON object. It ignores members that names does not contain.
func (f callbackFields) readJSON(object []byte, names map[string]string) error {
	var members map[string]json.RawMessage
	if !utf8.Valid(object) || strictjson.Check(object) != nil || json.Unmarshal(object, &members) != nil || members == nil {
		return unreadable("not a well-formed JSON object")
	}
	for key, raw := range members {
		if err := f.addMember(names[strings.ToLower(key)], raw); err != nil {
			return err
		}
	}
	return nil
}

// addMember stores one field, or ignores it if it has no common name. Ids and states may be numbers. Tokens must be
// strings.
func (f callbackFields) addMember(name string, raw json.RawMessage) error {
	value := textOrDigits(raw)
	switch {
	case name == "", string(raw) == "null":
		return nil
	case name == "solution" && raw[0] == '{':
		if err := f.readJSON(raw, solutionNames); err != nil {
			return err
		}
		f["members"] = string(raw)
		return f.add("named", cmp.Or(namedValues(captcha.GeeTest, raw), namedValues(captcha.GeeTestV4, raw)))
	case name == "agent", name == "respkey":
		value = jsonText(raw) // ignored if it is not a string
	case raw[0] == '"':
	case value == "", name == "code", name == "token", name == "solution":
		return unreadable("a field has the wrong type")
	case name == "id" && strings.Trim(value, "0123456789") != "":
		return unreadable("the id is not a task id")
	}
	return f.add(name, value)
}

// callback checks the fields and converts them to a Callback.
func (f callbackFields) callback() (Callback, error) {
	task := f["id"]
	if task == "0" {
		task = ""
	}
	if task != "" && !isGraphic(task, longTask) {
		return Callback{}, unreadable("the id is not a task id")
	}
	refused, err := f.refusal()
	if err != nil {
		return Callback{}, err
	}
	code, token := f["code"], cmp.Or(f["token"], f["named"])
	if refused != "" {
		if token != "" || code != "" && code != refused {
			return Callback{}, unreadable("a refusal with a token")
		}
		e := profile("").asError(refused)
		if e.Delay = 0; e.Class != Parameters {
			e.Class, e.Err = Task, nil
		}
		return Callback{Task: task, Err: e}, nil
	}
	switch {
	case code != "" && token != "" && code != token:
		return Callback{}, unreadable("a field has two values")
	case code == "" && token == "":
		return Callback{}, unreadable("neither a token nor a refusal")
	case token != "" && f["status"] != "" && f["status"] != "ready":
		return Callback{}, unreadable("unknown status")
	case !captcha.IsReadable(cmp.Or(code, token), maxReply):
		return Callback{}, unreadable("the token is invalid")
	}
	members := map[string]json.RawMessage{}
	for name, text := range map[string]string{"userAgent": f["agent"], "respKey": f["respkey"]} {
		members[name], _ = json.Marshal(text) // of a string: no error is possible
	}
	_ = json.Unmarshal([]byte(f["members"]), &members) // the solution's members, if there is a solution
	extra := captcha.NewExtra(members, "expiretime")
	return Callback{Task: task, Solution: Solution{cmp.Or(code, token), extra, expiry(textOrDigits(members["expireTime"]))}}, nil
}

// refusal returns the service's error code for a failed task, and "" for a solved task.
func (f callbackFields) refusal() (string, error) {
	word := f["errorcode"]
	switch id := f["errorid"]; {
	case id == "0":
		word = ""
	case strings.Trim(id, "0123456789") != "":
		return "", unreadable("the errorId is not a number")
	case id != "" && word == "":
		word = cmp.Or(wire.CodeOf(id), "errorId "+id)
	}
	status, code := f["status"], f["code"]
	if word == "" && isRefusal(code) {
		word = code
	}
	switch {
	case isNotReady(code) || isNotReady(word):
		return "", unreadable("the task is not ready")
	case word != "":
	case status == "processing" || status == "idle":
		return "", unreadable("the task is not ready")
	case status == "failed", status == "0" && f["id"] != "":
		// Some services send no reason. A status of 0 counts as a failure only if the pingback also
		// has an id.
		word = "status " + status
	}
	if strings.ContainsFunc(word, unicode.IsControl) {
		return "", unreadable("the refusal holds control characters")
	}
	return word, nil
}

// isRefusal reports whether the value of the field `code` is an error code and not a token.
func isRefusal(code string) bool {
	_, _, known := profile("").meaning(code)
	return known || isLink(code) || strings.HasPrefix(code, "ERROR")
}
