package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// createTask implements the protocol with the calls createTask and getTaskResult.
type createTask struct {
	key     captcha.Secret
	profile profile
}

// post returns a call whose body contains these fields and the key. Marshalling cannot
// fail, because the fields are plain values.
func (t createTask) post(path string, fields map[string]any, read func([]byte) (answer, error)) query {
	fields["clientKey"] = t.key.Reveal()
	body, _ := json.Marshal(fields)
	return query{path: path, contentType: "application/json", body: string(body), read: read}
}

func (t createTask) submit(r Request) (query, error) {
	fields, err := wire.CreateTask(r.Identity, r.Image, r.Pingback, t.profile.name)
	if err != nil {
		return query{}, err
	}
	return t.post("/createTask", fields, readCreated), nil
}

func (t createTask) poll(task string, id captcha.Identity) query {
	return t.post("/getTaskResult", taskFields(task), func(reply []byte) (answer, error) {
		a, err := readResult(reply, id.Type)
		if err == nil && a.text != "" && t.profile.name == otherPoold {
			a.sinceSubmit, a.dated = readAge(reply)
		}
		return a, err
	})
}

// taskFields returns the request fields with the id of a task. It sends an integer id as a JSON
// number.
func taskFields(task string) map[string]any {
	if n, err := strconv.ParseInt(task, 10, 64); err == nil && strconv.FormatInt(n, 10) == task {
		return map[string]any{"taskId": n}
	}
	return map[string]any{"taskId": task}
}

func (t createTask) balance() query {
	return t.post("/getBalance", map[string]any{}, readMoney)
}

func (t createTask) threads() (query, bool) { return query{}, false }

// report returns the call for a report. 2captcha has one pair of paths for all types.
// The other services have the paths of anti-captcha: a pair of paths for reCAPTCHA, a path for bad
// reports about hCaptcha, and a path for bad reports about pictures.
func (t createTask) report(task string, kind captcha.Type, good bool) (query, bool) {
	path, offered := wire.ReportPath(kind, good)
	if t.profile.name == twoCaptcha || t.profile.name == otherPoold {
		path, offered = "/reportIncorrect", true
		if good {
			path = "/reportCorrect"
		}
	}
	if !offered {
		return query{}, false
	}
	return t.post(path, taskFields(task), func(reply []byte) (answer, error) {
		_, a, err := parseCreateTask(reply)
		return reportAnswer(a, err)
	}), true
}

// createTaskReply is a parsed reply of the tasks protocol.
type createTaskReply struct {
	ErrorID   json.RawMessage `json:"errorId"`
	ErrorCode json.RawMessage `json:"errorCode"`
	Status    json.RawMessage `json:"status"`
	TaskID    json.RawMessage `json:"taskId"`
	Solution  json.RawMessage `json:"solution"`
	Balance   json.RawMessage `json:"balance"`
}

func readCreated(reply []byte) (answer, error) {
	r, a, err := parseCreateTask(reply)
	if err != nil || a.code != "" {
		return a, err
	}
	return createdAnswer(r.TaskID, a)
}

func readResult(reply []byte, kind captcha.Type) (answer, error) {
	r, a, err := parseCreateTask(reply)
	if err != nil || a.code != "" || a.notReady {
		return a, err
	}
	switch jsonText(r.Status) {
	case "processing", "idle":
		return answer{notReady: true}, nil
	case "failed":
		return answer{code: "status failed"}, nil
	case "ready":
	default:
		return answer{}, unexpectedReply
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(r.Solution, &members) != nil {
		return answer{}, unexpectedReply
	}
	var text string
	switch k := captcha.Of(kind); {
	case k.Values != nil:
		text = namedValues(kind, r.Solution)
	case kind == captcha.Image: // a text of digits may come as a JSON number
		text = textOrDigits(members[k.Solution])
	default: // services disagree on the name of a token
		text = cmp.Or(jsonText(members[k.Solution]), jsonText(members["gRecaptchaResponse"]), jsonText(members["token"]))
	}
	return solvedAnswer(kind, text, userAgent(members["userAgent"]))
}

// maxAge is the longest accepted time from a solve to the submission of its task.
const maxAge = 24 * time.Hour

// readAge returns the time from the submission to the solve, or false if the reply has no valid
// times. Both times are in whole seconds. A poold that serves tasks rounds these times so that the
// token never seems too young (httpapi/protocols.go).
func readAge(reply []byte) (sinceSubmit time.Duration, ok bool) {
	var times struct {
		CreateTime int64 `json:"createTime"`
		EndTime    int64 `json:"endTime"`
	}
	if decode(bytes.TrimSpace(reply), &times) != nil || times.CreateTime <= 0 || times.EndTime <= 0 {
		return 0, false
	}
	since := times.EndTime - times.CreateTime
	if limit := int64(maxAge / time.Second); since < -limit || since > limit {
		return 0, false
	}
	return time.Duration(since) * time.Second, true
}

func readMoney(reply []byte) (answer, error) {
	r, a, err := parseCreateTask(reply)
	if err != nil || a.code != "" {
		return a, err
	}
	return amountAnswer(r.Balance)
}

// parseCreateTask parses the common fields of a reply. In the answer it sets only code or notReady. If
// the service granted the call, it sets neither.
func parseCreateTask(reply []byte) (createTaskReply, answer, error) {
	var r createTaskReply
	reply, err := trimReply(reply)
	if err != nil {
		return r, answer{}, err
	}
	if err := decode(reply, &r); err != nil {
		return r, answer{}, err
	}
	id, code := textOrDigits(r.ErrorID), textOrDigits(r.ErrorCode)
	switch {
	case id == "0", id == "" && code == "":
		return r, answer{}, nil
	case code == "":
		if code = wire.CodeOf(id); code == "" {
			code = "errorId " + id
		}
	}
	return r, refusal(code), nil
}
