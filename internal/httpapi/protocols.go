package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/provider/wire"
)

// mostIDs is the maximum number of tasks that one call of res.php can poll.
const mostIDs = 50

// readInPHP reads a call of /in.php or /res.php.
func readInPHP(sent wire.Request) call {
	asked := wire.ReadInPHP(sent)
	form := asked.Form
	return call{
		Call: asked, reported: form.Bare("OK_REPORT_RECORDED"), text: form.Bare, accepted: form.Accept,
		solved:  func(got *compat.Result) wire.Reply { return inPHPSolved(form, got, asked.Priced) },
		balance: func(left float64) wire.Reply { return form.Bare(strconv.FormatFloat(left, 'f', -1, 64)) },
		fail:    func(cause *compat.Cause) wire.Reply { return form.Fail(cause.Code, cause.Why) },
	}
}

// Clients of the protocol in_php get inPHPPrice as the price of every token.
const inPHPPrice = "0"

func inPHPSolved(form wire.Form, got *compat.Result, priced bool) wire.Reply {
	token := &got.Token
	v := map[string]any{}
	for name, value := range token.Extra.Members() {
		if name == "userAgent" { // the spellings of captchaai and of 2captcha
			v["user_agent"], name = value, "useragent"
		}
		v[name] = value
	}
	v["status"], v["request"] = 1, token.Value
	if values := captcha.Named(got.Type, token.Value); values != nil {
		prefix := ""
		if got.Type == captcha.GeeTest {
			prefix = "geetest_"
		}
		object := make(map[string]string, len(values))
		for name, value := range values {
			object[prefix+name] = value
		}
		v["request"] = object
	}
	text := "OK|" + token.Value
	if priced {
		v["price"], text = inPHPPrice, text+"|"+inPHPPrice
	}
	return form.Say(text, v)
}

// pollMany polls several tasks for one call. The reply has one value or code per id, in the order
// of the ids.
func (s *Server) pollMany(c *Context, asked *call) (reply wire.Reply, err error) {
	if len(asked.IDs) > mostIDs {
		return reply, unsupported("more than " + strconv.Itoa(mostIDs) + " ids in one call")
	}
	values := make([]string, len(asked.IDs))
	var found []compat.Result
	for i, id := range asked.IDs {
		got, err := s.poll(c, id)
		if err != nil {
			values[i] = s.causeOf(c, err).Code
			continue
		}
		values[i] = got.Token.Value
		found = append(found, got)
	}
	reply = asked.text(strings.Join(values, "|"))
	if len(found) == 0 {
		return reply, nil
	}
	last := len(found) - 1
	for i := range found[:last] {
		s.Arrived(c, handout(c, &found[i]))
	}
	return reply, s.sendSolved(c, &found[last], reply)
}

// readCreateTask reads a call of /createTask or of another path of the protocol create_task.
func readCreateTask(sent wire.Request) call {
	asked := wire.ReadCreateTask(sent)
	reply := func(a wire.CreateTaskAnswer) wire.Reply {
		if asked.Text && asked.Action == wire.Poll {
			a.TaskID = asked.IDs[0]
		}
		return wire.JSON(a)
	}
	return call{
		Call: asked, reported: wire.JSON(wire.CreateTaskAnswer{Status: "success"}),
		accepted: func(number string) wire.Reply {
			if asked.Text {
				return reply(wire.CreateTaskAnswer{TaskID: number})
			}
			return reply(wire.CreateTaskAnswer{TaskID: json.Number(number)})
		},
		solved:  func(got *compat.Result) wire.Reply { return reply(taskSolved(got)) },
		balance: func(left float64) wire.Reply { return wire.JSON(wire.CreateTaskAnswer{Balance: &left}) },
		fail:    func(cause *compat.Cause) wire.Reply { return reply(wire.CreateTaskError(cause.Code, cause.Why)) },
	}
}

// taskSolved returns the reply with a token. The endTime of the reply is the earliest time at which
// the token can have been solved. The endTime may be before the creation of the task. The reply's
// createTime is rounded up to a whole second.
func taskSolved(got *compat.Result) wire.CreateTaskAnswer {
	token := &got.Token
	return wire.CreateTaskAnswer{
		Status: "ready", Solution: wire.Solved(got.Type, token.Value, captcha.Named(got.Type, token.Value),
			token.Extra.Members()),
		Cost: inPHPPrice, CreateTime: got.Made.Add(time.Second - 1).Unix(), EndTime: token.Born.Unix(), SolveCount: 1,
	}
}
