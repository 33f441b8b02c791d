package wire

import (
	"strconv"

	"poold/internal/strictjson"
)

// The values of the header Content-Type of responses.
const (
	PlainText = "text/plain; charset=utf-8"
	JSONText  = "application/json; charset=utf-8"
)

// Reply is the Content-Type and the body of a response with status 200.
type Reply struct {
	Type string
	Body []byte
}

// LegacyAnswer is the JSON form of a response of the legacy protocol.
type LegacyAnswer struct {
	Status    int    `json:"status"`
	Request   any    `json:"request,omitempty"`
	UserAgent string `json:"user_agent,omitempty"` // the spelling of captchaai
	Useragent string `json:"useragent,omitempty"`  // the spelling of 2captcha
	Price     string `json:"price,omitempty"`
	ErrorText string `json:"error_text,omitempty"`
}

// ThreadsAnswer is the response to threadsinfo.
type ThreadsAnswer struct {
	Status  int `json:"status"`
	Threads int `json:"threads"`
	Working int `json:"working_threads"`
	Free    int `json:"free_threads"`
}

// Say returns a response in the form that the caller requested: either v as JSON, or the plain
// text.
func (f Form) Say(text string, v any) Reply {
	if f.JSON {
		return JSON(v)
	}
	return Reply{PlainText, []byte(text)}
}

// Fail returns the response with an error code. The argument why is an explanation for people and
// may be empty.
func (f Form) Fail(code, why string) Reply {
	return f.Say(code, LegacyAnswer{Request: code, ErrorText: why})
}

// Bare returns a successful response. If it is plain text, it lacks the usual prefix "OK|".
func (f Form) Bare(text string) Reply { return f.Say(text, LegacyAnswer{Status: 1, Request: text}) }

// Accept returns the response to an accepted submission, with the id of the task. In JSON the id is
// a number if numeric is true, and a string if it is false.
func (f Form) Accept(n int64, numeric bool) Reply {
	id := strconv.FormatInt(n, 10)
	v := LegacyAnswer{Status: 1, Request: id}
	if numeric {
		v.Request = n
	}
	return f.Say("OK|"+id, v)
}

// JSON returns the response with v as JSON. encoding/json must be able to marshal v.
func JSON(v any) Reply { return Reply{JSONText, strictjson.Encode(v)} }
