package wire

import (
	"encoding/json"
	"strconv"
)

// The types of answers.
const (
	PlainText = "text/plain; charset=utf-8"
	JSONText  = "application/json; charset=utf-8"
)

// Reply is a whole answer, whose status is 200.
type Reply struct {
	Type string
	Body []byte
}

// LegacyAnswer is an answer in JSON.
type LegacyAnswer struct {
	Status    int    `json:"status"`
	Request   any    `json:"request,omitempty"`
	UserAgent string `json:"user_agent,omitempty"` // captchaai's spelling
	Useragent string `json:"useragent,omitempty"`  // 2captcha's
	Price     string `json:"price,omitempty"`
	ErrorText string `json:"error_text,omitempty"`
}

// ThreadsAnswer is the answer to threadsinfo.
type ThreadsAnswer struct {
	Status  int `json:"status"`
	Threads int `json:"threads"`
	Working int `json:"working_threads"`
	Free    int `json:"free_threads"`
}

// Say returns an answer: text in plain form, v in JSON.
func (f Form) Say(text string, v any) Reply {
	if f.JSON {
		return JSON(v)
	}
	return Reply{PlainText, []byte(text)}
}

// Fail returns the answer with a code. why is a sentence for people, or "".
func (f Form) Fail(code, why string) Reply {
	return f.Say(code, LegacyAnswer{Request: code, ErrorText: why})
}

// Bare returns an answer that has no "OK|" in plain text.
func (f Form) Bare(text string) Reply { return f.Say(text, LegacyAnswer{Status: 1, Request: text}) }

// Accept returns the answer to a submit. numeric makes the id a number in JSON.
func (f Form) Accept(n int64, numeric bool) Reply {
	id := strconv.FormatInt(n, 10)
	v := LegacyAnswer{Status: 1, Request: id}
	if numeric {
		v.Request = n
	}
	return f.Say("OK|"+id, v)
}

// JSON encodes v, which must consist of plain fields.
func JSON(v any) Reply {
	body, err := json.Marshal(v)
	if err != nil { // impossible for plain fields
		body = []byte("null")
	}
	return Reply{JSONText, body}
}
