package wire

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"poold/internal/captcha"
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

// JSON returns the response with v as JSON. encoding/json must be able to marshal v.
func JSON(v any) Reply { return Reply{JSONText, strictjson.Encode(v)} }

// inPHPAnswer is the JSON form of a response of the protocol in_php.
type inPHPAnswer struct {
	Status    int    `json:"status"`
	Request   string `json:"request"`
	ErrorText string `json:"error_text,omitempty"`
}

// ThreadsAnswer is the response to threadsinfo.
type ThreadsAnswer struct {
	Status  int `json:"status"`
	Threads int `json:"threads"`
	Working int `json:"working_threads"`
	Free    int `json:"free_threads"`
}

// createTaskAnswer is the body of every response of the protocol create_task.
type createTaskAnswer struct {
	ErrorID          int      `json:"errorId"`
	ErrorCode        string   `json:"errorCode,omitempty"`
	ErrorDescription string   `json:"errorDescription,omitempty"`
	TaskID           any      `json:"taskId,omitempty"` // a number or a text
	Status           string   `json:"status,omitempty"`
	Solution         any      `json:"solution,omitempty"`
	Cost             string   `json:"cost,omitempty"`
	CreateTime       int64    `json:"createTime,omitempty"` // in Unix seconds
	EndTime          int64    `json:"endTime,omitempty"`
	SolveCount       int      `json:"solveCount,omitempty"`
	Balance          *float64 `json:"balance,omitempty"`
}

// Solution is what a solved task brought.
type Solution struct {
	Type       captcha.Type
	Token      string            // the text of the solution, also of one with named values
	Extra      map[string]string // further members
	Cost       string
	Made, Born time.Time // of the submit, and the earliest time at which the token can have been solved
}

// say returns a response of the protocol in_php, in the form that the caller requested.
func (c *Call) say(text string, v any) Reply {
	if c.JSON {
		return JSON(v)
	}
	return Reply{PlainText, []byte(text)}
}

// task returns a response of the protocol create_task about a task.
func (c *Call) task(a createTaskAnswer) Reply {
	if c.Text && c.Action == Poll {
		a.TaskID = c.IDs[0]
	}
	return JSON(a)
}

// Bare returns a text as a successful response of the protocol in_php, without the usual prefix "OK|".
func (c *Call) Bare(text string) Reply { return c.say(text, inPHPAnswer{Status: 1, Request: text}) }

// Accepted returns the response to a submission, with the number of the task.
func (c *Call) Accepted(number string) Reply {
	switch {
	case c.InPHP:
		return c.say("OK|"+number, inPHPAnswer{Status: 1, Request: number})
	case c.Text:
		return c.task(createTaskAnswer{TaskID: number})
	}
	return c.task(createTaskAnswer{TaskID: json.Number(number)})
}

// Failed returns the response for an error code of the protocol in_php. In the protocol create_task, CodeNotReady
// becomes a status instead of an error. The argument why is an explanation for people and may be empty.
func (c *Call) Failed(code, why string) Reply {
	switch {
	case c.InPHP:
		return c.say(code, inPHPAnswer{Request: code, ErrorText: why})
	case code == CodeNotReady:
		return c.task(createTaskAnswer{Status: "processing"})
	}
	code = cmp.Or(createTaskCodes[code], code)
	id := cmp.Or(errorIDs[code], 1) // also of a code without a number
	return c.task(createTaskAnswer{ErrorID: id, ErrorCode: code, ErrorDescription: why})
}

// Reported returns the response to a report that was recorded.
func (c *Call) Reported() Reply {
	if c.InPHP {
		return c.Bare("OK_REPORT_RECORDED")
	}
	return JSON(createTaskAnswer{Status: "success"})
}

// Balance returns the response with the balance of the account.
func (c *Call) Balance(left float64) Reply {
	if c.InPHP {
		return c.Bare(strconv.FormatFloat(left, 'f', -1, 64))
	}
	return JSON(createTaskAnswer{Balance: &left})
}

// Solved returns the response to a poll of a solved task. The createTime is rounded up to a whole second. The endTime
// may be before it.
func (c *Call) Solved(s Solution) Reply {
	if c.InPHP {
		return c.solvedInPHP(s)
	}
	values := captcha.Named(s.Type, s.Token)
	if member := captcha.Of(s.Type).Solution; member != "" {
		values = map[string]string{member: s.Token}
	}
	for name, value := range s.Extra {
		if values[name] == "" && value != "" {
			values[name] = value
		}
	}
	return c.task(createTaskAnswer{
		Status: "ready", Solution: values, Cost: s.Cost, SolveCount: 1,
		CreateTime: s.Made.Add(time.Second - 1).Unix(), EndTime: s.Born.Unix(),
	})
}

func (c *Call) solvedInPHP(s Solution) Reply {
	v := map[string]any{}
	for name, value := range s.Extra {
		if name == "userAgent" { // the spellings of captchaai and of 2captcha
			v["user_agent"], name = value, "useragent"
		}
		v[name] = value
	}
	v["status"], v["request"] = 1, s.Token
	if values := captcha.Named(s.Type, s.Token); values != nil {
		prefix := ""
		if s.Type == captcha.GeeTest {
			prefix = "geetest_"
		}
		object := make(map[string]string, len(values))
		for name, value := range values {
			object[prefix+name] = value
		}
		v["request"] = object
	}
	text := "OK|" + s.Token
	if c.Priced {
		v["price"], text = s.Cost, text+"|"+s.Cost
	}
	return c.say(text, v)
}
