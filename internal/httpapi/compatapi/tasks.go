package compatapi

import (
	"strconv"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/httpapi/base"
	"poold/internal/provider/wire"
)

// ServeTasks handles /createTask and the other paths of the tasks protocol.
func (p *Routes) ServeTasks(c *base.Context) error {
	return p.serve(c, func(sent wire.Request) call {
		asked := wire.ReadTasks(sent)
		return call{
			asked.Key, asked.Bad, asked.Action,
			func(keepPicture func() (release func())) (wire.Reply, error) {
				return p.taskDo(c, &asked, keepPicture)
			},
			func(says codes) wire.Reply { return wire.JSON(wire.TasksError(says.tasks, says.why)) },
		}
	})
}

// taskDo executes a call. If taskDo has already written the response, the returned reply is empty.
func (p *Routes) taskDo(c *base.Context, asked *wire.TasksCall, keepPicture func() (release func())) (reply wire.Reply, err error) {
	switch asked.Action {
	case wire.Submit:
		number, err := p.submit(c, asked.Order, keepPicture)
		n, _ := strconv.ParseInt(number, 10, 64) // the number of a task has 11 digits
		return wire.JSON(wire.TasksAnswer{TaskID: n}), err
	case wire.Poll:
		var got compat.Result
		if got, err = p.poll(c, asked.ID); err == nil {
			err = p.answerSolved(c, &got, taskSolved(&got))
		}
	case wire.Report:
		return wire.JSON(wire.TasksAnswer{Status: "success"}), p.report(c, asked.ID, asked.Verdict)
	case wire.Balance:
		left, err := p.balance(c)
		return wire.JSON(wire.TasksAnswer{Balance: &left}), err
	case wire.Threads, wire.Other: // the protocol has no such calls
	}
	return reply, err
}

// taskSolved returns the reply with a token. The endTime of the reply is the earliest time at which
// the token can have been solved. The endTime may be before the creation of the task. The reply's
// createTime is rounded up to a whole second.
func taskSolved(got *compat.Result) wire.Reply {
	token := &got.Token
	return wire.JSON(wire.TasksAnswer{
		Status: "ready", Solution: wire.Solved(got.Type, token.Value, captcha.Named(got.Type, token.Value), token.UserAgent),
		Cost: legacyPrice, CreateTime: got.Made.Add(time.Second - 1).Unix(), EndTime: token.Born.Unix(), SolveCount: 1,
	})
}
