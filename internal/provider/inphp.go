package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// inPHP implements the protocol in_php, which sends forms by POST to /in.php and /res.php. Requests ask for JSON
// replies. Plain text is parsed too, because some services always send errors as plain text.
type inPHP struct {
	key     captcha.Secret
	profile profile
}

// form returns a call whose body contains these fields and the key. The key is never
// part of the URL.
func (l inPHP) form(path string, fields url.Values) query {
	fields.Set("key", l.key.Reveal())
	fields.Set("json", "1")
	return query{path: path, contentType: "application/x-www-form-urlencoded", body: fields.Encode()}
}

func (l inPHP) submit(r Submission) (query, error) {
	fields, err := wire.InPHPForm(r.Identity, r.Image, string(l.profile))
	if err != nil {
		return query{}, err
	}
	if r.CallbackURL != "" {
		fields.Set("pingback", r.CallbackURL)
	}
	return l.form("/in.php", fields), nil
}

// ask returns the call for an action. Only captchaai offers threadsinfo.
func (l inPHP) ask(action, task string, _ captcha.Type, accepted bool) (query, bool) {
	reported := map[bool]string{true: "reportgood", false: "reportbad"}[accepted]
	word := map[string]string{poll: "get", balance: "getbalance", threads: "threadsinfo", report: reported}[action]
	fields := url.Values{"action": {word}}
	if task != "" {
		fields.Set("id", task)
	}
	return l.form("/res.php", fields), action != threads || l.profile == captchaAI
}

func (l inPHP) pace(t captcha.Type) (firstPoll, interval time.Duration) {
	if l.profile == captchaAI && t != captcha.Image {
		return 15 * time.Second, usualPoll
	}
	return captcha.Of(t).FirstPoll, usualPoll
}

// reportWindow: 2captcha's client explains REPORT_NOT_RECORDED: 2captcha accepts a report within 15 minutes after the
// solve. Other services with this protocol copy 2captcha.
func (inPHP) reportWindow() time.Duration { return longWindow }

// inPHPReply is a parsed reply of in.php or res.php, from JSON or from plain text. encoding/json
// ignores the case of field names.
type inPHPReply struct {
	Status  json.RawMessage `json:"status"`
	Request json.RawMessage `json:"request"`
	Result  json.RawMessage `json:"result"`
	Threads json.RawMessage `json:"threads"`
}

// read parses the reply to a call. A balance and the reply to a report may be plain text without the prefix "OK|", and
// the reply to threadsinfo may have no status.
func (l inPHP) read(q query, reply []byte) (answer, error) {
	reply, err := trimReply(reply)
	if err != nil {
		return answer{}, err
	}
	switch q.action {
	case balance:
		if n, ok := finite(string(reply)); ok {
			return answer{number: n}, nil
		}
	case report:
		if bytes.HasPrefix(reply, []byte("OK")) {
			return answer{}, nil
		}
	case threads:
		var bare inPHPReply
		_ = decode(reply, &bare) // fails for plain text
		if n, ok := finite(textOrDigits(bare.Threads)); ok {
			return answer{number: n}, nil
		}
	}
	r, code, err := l.parse(reply)
	switch {
	case err != nil:
		return answer{}, err
	case code != "":
		return q.refused(code)
	}
	switch q.action {
	case submit:
		return createdAnswer(r.Request)
	case poll:
		return readSolved(q.identity, r, reply)
	case report:
		return answer{}, nil
	case threads:
		return noNumber, nil
	}
	return amountAnswer(r.Request)
}

// readSolved reads the solution, which is in the field `request`. Some services use the field
// `result` for enterprise CAPTCHAs.
func readSolved(id captcha.Identity, r inPHPReply, reply []byte) (answer, error) {
	var text string
	switch first, second := jsonText(r.Request), jsonText(r.Result); {
	case captcha.HasNamed(id.Type):
		text = cmp.Or(namedValues(id.Type, r.Request, r.Result), besideStatus(id.Type, reply))
	case id.Type == captcha.Image: // a text of digits may come as a JSON number
		text = cmp.Or(textOrDigits(r.Request), textOrDigits(r.Result))
	case id.Enterprise:
		text = cmp.Or(second, first)
	default:
		text = cmp.Or(first, second)
	}
	var members map[string]json.RawMessage
	_ = decode(reply, &members) // fails for plain text
	return solvedAnswer(id.Type, text, captcha.NewExtra(members, "status", "request", "result", "price"))
}

// besideStatus handles a reply in which the named values of a solution are fields of the reply
// itself. It returns these values as a JSON object, or "" if the reply has no such fields.
func besideStatus(t captcha.Type, reply []byte) string {
	var whole json.RawMessage
	_ = decode(reply, &whole) // whole stays empty if this fails
	values := captcha.Named(t, string(whole))
	if values == nil {
		return ""
	}
	text, _ := json.Marshal(values) // marshalling a map of strings cannot fail
	return string(text)
}

// parse parses a reply in JSON or in plain text. It returns the error code if the service refused the call.
func (l inPHP) parse(reply []byte) (r inPHPReply, code string, err error) {
	if reply[0] == '{' {
		if err := decode(reply, &r); err != nil {
			return r, "", err
		}
		word := textOrDigits(r.Request)
		switch status := strings.Trim(string(r.Status), `"`); {
		case (status == "1" || status == "true") && !l.isErrorCode(word):
			return r, "", nil
		case slices.Contains([]string{"1", "true", "0", "false"}, status) && word != "":
			return r, word, nil
		}
		return r, "", unexpectedReply
	}
	granted, ok := strings.CutPrefix(string(reply), "OK|")
	switch {
	case ok:
		r.Request, err = json.Marshal(granted)
		return r, "", err
	case l.isErrorCode(granted):
		return r, granted, nil
	}
	return r, "", unexpectedReply
}

// isErrorCode reports whether a reply in plain text is an error code of the protocol. Other texts,
// such as "Bad gateway", must not count as refusals, because the service may have accepted the
// task.
func (l inPHP) isErrorCode(text string) bool {
	_, _, known := l.profile.meaning(text)
	return !strings.ContainsAny(text, "\r\n<") && (known || isLink(text) || isNotReady(text) ||
		strings.HasPrefix(text, "ERROR_") || strings.HasPrefix(text, "ERROR:"))
}
