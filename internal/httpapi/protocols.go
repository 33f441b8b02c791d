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

// readLegacy reads a call of /in.php or /res.php.
func readLegacy(sent wire.Request) call {
	asked := wire.ReadLegacy(sent)
	form := asked.Form
	return call{
		Call: asked, reported: form.Bare("OK_REPORT_RECORDED"), text: form.Bare, accepted: form.Accept,
		solved:  func(got *compat.Result) wire.Reply { return legacySolved(form, got, asked.Priced) },
		balance: func(left float64) wire.Reply { return form.Bare(strconv.FormatFloat(left, 'f', -1, 64)) },
		fail:    func(cause *compat.Cause) wire.Reply { return form.Fail(cause.Code, cause.Why) },
	}
}

// Clients of the legacy protocol get legacyPrice as the price of every token.
const legacyPrice = "0"

func legacySolved(form wire.Form, got *compat.Result, priced bool) wire.Reply {
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
		v["price"], text = legacyPrice, text+"|"+legacyPrice
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

// readTasks reads a call of /createTask or of another path of the tasks protocol.
func readTasks(sent wire.Request) call {
	asked := wire.ReadTasks(sent)
	reply := func(a wire.TasksAnswer) wire.Reply {
		if asked.Text && asked.Action == wire.Poll {
			a.TaskID = asked.IDs[0]
		}
		return wire.JSON(a)
	}
	return call{
		Call: asked, reported: wire.JSON(wire.TasksAnswer{Status: "success"}),
		accepted: func(number string) wire.Reply {
			if asked.Text {
				return reply(wire.TasksAnswer{TaskID: number})
			}
			return reply(wire.TasksAnswer{TaskID: json.Number(number)})
		},
		solved:  func(got *compat.Result) wire.Reply { return reply(taskSolved(got)) },
		balance: func(left float64) wire.Reply { return wire.JSON(wire.TasksAnswer{Balance: &left}) },
		fail:    func(cause *compat.Cause) wire.Reply { return reply(wire.TasksError(cause.Code, cause.Why)) },
	}
}

// taskSolved returns the reply with a token. The endTime of the reply is the earliest time at which
// the token can have been solved. The endTime may be before the creation of the task. The reply's
// createTime is rounded up to a whole second.
func taskSolved(got *compat.Result) wire.TasksAnswer {
	token := &got.Token
	return wire.TasksAnswer{
		Status: "ready", Solution: wire.Solved(got.Type, token.Value, captcha.Named(got.Type, token.Value),
			token.Extra.Members()),
		Cost: legacyPrice, CreateTime: got.Made.Add(time.Second - 1).Unix(), EndTime: token.Born.Unix(), SolveCount: 1,
	}
}
