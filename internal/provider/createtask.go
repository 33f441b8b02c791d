package provider

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// createTask implements the protocol create_task, which sends JSON by POST to /createTask and /getTaskResult.
type createTask struct {
	key     captcha.Secret
	profile profile
}

// post returns a call whose body contains these fields and the key. Marshalling cannot
// fail, because the fields are plain values.
func (t createTask) post(path string, fields map[string]any) query {
	fields["clientKey"] = t.key.Reveal()
	body, _ := json.Marshal(fields)
	return query{path: path, contentType: "application/json", body: string(body)}
}

func (t createTask) submit(r Submission) (query, error) {
	fields, err := wire.CreateTaskBody(r.Identity, r.Image, r.CallbackURL, string(t.profile))
	if err != nil {
		return query{}, err
	}
	return t.post("/createTask", fields), nil
}

// ask returns the call for an action. For reports, 2captcha has one pair of paths for all types, CapMonster a path for
// bad reports about tokens, and CapSolver a call of another form, which is not supported. The other services have the
// paths of anti-captcha: a pair of paths for reCAPTCHA, and one each for bad reports about hCaptcha and pictures.
func (t createTask) ask(action, task string, kind captcha.Type, accepted bool) (query, bool) {
	path, offered := map[string]string{poll: "/getTaskResult", balance: "/getBalance"}[action]
	switch {
	case action != report, t.profile == capSolver:
	case t.profile == twoCaptcha:
		path, offered = "/report"+map[bool]string{true: "Correct", false: "Incorrect"}[accepted], true
	case t.profile == capMonster && kind != captcha.Image:
		path, offered = "/reportIncorrectTokenCaptcha", !accepted
	default:
		path, offered = wire.ReportPath(kind, accepted)
	}
	fields := map[string]any{}
	if n, err := strconv.ParseInt(task, 10, 64); err == nil && strconv.FormatInt(n, 10) == task {
		fields["taskId"] = n // services expect an integer id as a JSON number
	} else if task != "" {
		fields["taskId"] = task
	}
	return t.post(path, fields), offered
}

// pace is quick, except at 2captcha: the faster services use this protocol. Some of them ban clients that poll more
// often than every 2 s.
func (t createTask) pace(kind captcha.Type) (firstPoll, interval time.Duration) {
	if t.profile == twoCaptcha || kind == captcha.Image {
		return captcha.Of(kind).FirstPoll, usualPoll
	}
	return 10 * time.Second, 3 * time.Second
}

// reportWindow: anti-captcha's documentation of reportIncorrectRecaptcha states 60 s. The documentation of services
// that copied this protocol does not contradict it.
func (t createTask) reportWindow() time.Duration {
	if t.profile == twoCaptcha {
		return longWindow
	}
	return time.Minute
}

// createTaskReply is a parsed reply of the protocol create_task.
type createTaskReply struct {
	ErrorID   json.RawMessage `json:"errorId"`
	ErrorCode json.RawMessage `json:"errorCode"`
	Status    json.RawMessage `json:"status"`
	TaskID    json.RawMessage `json:"taskId"`
	Solution  json.RawMessage `json:"solution"`
	Balance   json.RawMessage `json:"balance"`
}

func (t createTask) read(q query, reply []byte) (answer, error) {
	reply, err := trimReply(reply)
	if err != nil {
		return answer{}, err
	}
	var r createTaskReply
	if err := decode(reply, &r); err != nil {
		return answer{}, err
	}
	if code := refusedBy(r.ErrorID, r.ErrorCode); code != "" {
		return q.refused(code)
	}
	switch q.action {
	case submit:
		a, err := createdAnswer(r.TaskID)
		// some services solve pictures at once
		if done, unread := readResult(q.identity.Type, r); err == nil && unread == nil && done.text != "" {
			a.done = &Solution{done.text, done.extra, done.expires}
		}
		return a, err
	case report:
		return answer{}, nil
	case poll:
		return readResult(q.identity.Type, r)
	}
	return amountAnswer(r.Balance)
}

// refusedBy returns the error code of a reply or a callback; "" = it is no refusal.
func refusedBy(errorID, errorCode json.RawMessage) string {
	id, code := textOrDigits(errorID), textOrDigits(errorCode)
	if id == "0" || id+code == "" {
		return ""
	}
	return cmp.Or(code, wire.CodeOf(id), "errorId "+id)
}

func readResult(kind captcha.Type, r createTaskReply) (answer, error) {
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
	if len(r.Solution) == 0 {
		return answer{}, unexpectedReply
	}
	_ = json.Unmarshal(r.Solution, &members) // fails for a text or a list
	var text string
	switch k := captcha.Of(kind); {
	case k.Values != nil:
		text = namedValues(kind, r.Solution)
	case kind == captcha.Image: // a text of digits may come as a JSON number
		text = textOrDigits(members[k.Solution])
	default: // services disagree on the name of a token
		text = cmp.Or(jsonText(members[k.Solution]), jsonText(members["gRecaptchaResponse"]), jsonText(members["token"]))
	}
	a, err := solvedAnswer(kind, text, captcha.NewExtra(members, "expiretime"))
	if err != nil {
		return answer{code: Unreadable}, nil //nolint:nilerr // the task is solved, and another poll would bring the same
	}
	a.expires = expiry(textOrDigits(members["expireTime"]))
	return a, nil
}
