package compatapi

import (
	"net/http"
	"strconv"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/httpapi/kernel"
	"poold/internal/provider/wire"
)

// ServeTasks is /createTask and the other paths of its protocol.
func (p *Routes) ServeTasks(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	var asked wire.TasksCall
	taken, err := p.read(r, c, func(sent wire.Request) { asked = wire.ReadTasks(sent, wire.AnyClient) })
	defer taken.Release()
	if err != nil {
		return err
	}
	err = p.authenticate(r, c, asked.Key, asked.Bad)
	if err == nil && asked.Bad != "" && asked.Action != wire.Submit {
		err = unreadable(asked.Bad)
	}
	if err == nil {
		err = p.taskDo(w, r, c, &asked, taken)
	}
	switch {
	case err == nil:
		return nil
	case err == kernel.ErrHungUp, r.Context().Err() != nil: //nolint:errorlint // as deliver returns it
		return kernel.ErrHungUp
	}
	says := p.saying(r.Context(), c, err)
	writeReply(w, wire.JSON(wire.TasksError(says.tasks, says.why)))
	return nil
}

// taskDo does what a call wants, and writes the answer unless there is an error.
func (p *Routes) taskDo(w http.ResponseWriter, r *http.Request, c *kernel.Call, asked *wire.TasksCall, taken *kernel.Room) error {
	switch asked.Action {
	case wire.Submit:
		return p.submit(w, r, c, asked.Order, taken, func(number string) wire.Reply {
			n, _ := strconv.ParseInt(number, 10, 64) // it has 11 digits
			return wire.JSON(wire.TasksAnswer{TaskID: n})
		})
	case wire.Poll:
		got, err := p.poll(r, c, asked.ID)
		if err != nil {
			return err
		}
		return p.tell(w, r, c, &got, taskSolved(&got))
	case wire.Report:
		if err := p.report(r, c, asked.ID, asked.Verdict); err != nil {
			return err
		}
		writeReply(w, wire.JSON(wire.TasksAnswer{Status: "success"}))
	case wire.Balance:
		left, err := p.balance(r.Context(), c)
		if err != nil {
			return err
		}
		writeReply(w, wire.JSON(wire.TasksAnswer{Balance: &left}))
	case wire.Threads, wire.Other: // the protocol has neither
	}
	return nil
}

// taskSolved is the answer with a token. Its times say how old the token is: endTime is
// when it can have been solved at the earliest, which may be before the task.
func taskSolved(got *compat.Result) wire.Reply {
	token := &got.Token
	return wire.JSON(wire.TasksAnswer{
		Status: "ready", Solution: wire.Solved(got.Type, token.Value, captcha.Named(got.Type, token.Value), token.UserAgent),
		Cost: legacyPrice, CreateTime: unixSeconds(got.Made, true), EndTime: unixSeconds(token.Born, false), SolveCount: 1,
	})
}
