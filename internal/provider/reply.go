package provider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"poold/internal/captcha"
)

// Readers of replies of both protocols. A reply may hold anything.

const (
	longTask  = 128     // bytes of a task id
	longAgent = 512     // bytes of a user agent
	longText  = 4 << 10 // bytes of a picture's text
)

// IsAnswer reports whether text can be the solution of a task of a type.
func IsAnswer(t captcha.Type, text string) bool {
	switch {
	case captcha.HasNamed(t):
		return readable(text, maxReply) && captcha.Named(t, text) != nil
	case t == captcha.Image:
		return readable(text, longText)
	}
	return graphic(text, maxReply)
}

// solution returns the answer to a poll of a solved task.
func solution(t captcha.Type, text, agent string) (answer, error) {
	if !IsAnswer(t, text) {
		return answer{}, oddReply
	}
	return answer{text: text, userAgent: agent}, nil
}

// named returns the first candidate that has named values: a text, an object, or an object in a
// text. An object is compacted. It returns "" if no candidate has them.
func named(t captcha.Type, candidates ...json.RawMessage) string {
	for _, raw := range candidates {
		text := cmp.Or(quoted(raw), string(raw))
		var b bytes.Buffer
		if json.Compact(&b, []byte(text)) == nil {
			text = b.String()
		}
		if captcha.Named(t, text) != nil {
			return text
		}
	}
	return ""
}

// sniff trims a reply and refuses HTML pages and empty replies. It ignores the Content-Type, because
// services send JSON as text/html.
func sniff(reply []byte) ([]byte, error) {
	reply = bytes.TrimSpace(bytes.TrimPrefix(reply, []byte("\xef\xbb\xbf")))
	switch {
	case len(reply) == 0:
		return nil, emptyReply
	case reply[0] == '<':
		return nil, htmlReply
	}
	return reply, nil
}

// decode reads the JSON value at the start of a reply and ignores what follows, such as a PHP
// warning. It hides the library's error, because that quotes the reply.
func decode(reply []byte, into any) error {
	err := json.NewDecoder(bytes.NewReader(reply)).Decode(into)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return cutReply
	}
	return oddReply
}

// quoted returns the text of a JSON string, "" for any other value.
func quoted(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return ""
	}
	return text
}

// plain returns the text of a JSON string, or a JSON number as it was written, "" for any other
// value.
func plain(raw json.RawMessage) string {
	if len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
		return string(raw)
	}
	return quoted(raw)
}

// taskID returns a task's id, and false if it is invalid. Services send numbers or texts. A text
// keeps its leading zeros.
func taskID(raw json.RawMessage) (string, bool) {
	id := plain(raw)
	if id == "0" || quoted(raw) == "" && strings.Trim(id, "0123456789") != "" {
		return "", false
	}
	return id, graphic(id, longTask)
}

// created returns the answer to a granted submit.
func created(id json.RawMessage, a answer) (answer, error) {
	task, valid := taskID(id)
	if a.notReady || !valid {
		return answer{}, oddReply
	}
	return answer{text: task}, nil
}

// amount returns the answer to a granted call for a number.
func amount(raw json.RawMessage) (answer, error) {
	n, ok := finite(plain(raw))
	if !ok {
		return answer{}, oddReply
	}
	return answer{number: n}, nil
}

// agent returns a valid user agent, else "".
func agent(raw json.RawMessage) string {
	return saneAgent(quoted(raw))
}

// saneAgent returns text if it is a valid user agent, else "".
func saneAgent(text string) string {
	if len(text) > longAgent || captcha.Printable(text) != text {
		return ""
	}
	return text
}
