package simulated

import (
	"cmp"
	"time"

	"poold/internal/provider/wire"
)

// refusal begins the explanation of each error code.
const refusal = "the simulated service refuses: "

// tasksFail returns the answer with an error code of the legacy protocol, which books uses.
func tasksFail(code string) wire.TasksAnswer {
	code = wire.TasksCode(code)
	return wire.TasksError(code, refusal+code)
}

// tasksCall executes a call of the tasks protocol.
func (s *Service) tasksCall(c wire.TasksCall, incomplete string, at time.Time) wire.TasksAnswer {
	if c.Action == wire.Submit {
		t, code := s.sell(c.Order.Identity, false, cmp.Or(s.keyError(c.Key), incomplete, c.Order.Bad), at)
		if code != "" {
			return tasksFail(code)
		}
		return wire.TasksAnswer{TaskID: t.Number}
	}
	if code := cmp.Or(incomplete, c.Bad, s.keyError(c.Key)); code != "" {
		return tasksFail(code)
	}
	switch c.Action {
	case wire.Poll:
		n, _ := wire.TaskNumber(c.ID)
		t, code := s.poll(n, at)
		if code != "" {
			return tasksFail(code)
		}
		return s.Result(t)
	case wire.Balance:
		return wire.TasksAnswer{Balance: &s.opts.Balance}
	}
	if code := s.report(c.ID, c.Verdict, at); code != "" {
		return tasksFail(code)
	}
	return wire.TasksAnswer{Status: "success"}
}

// Result returns the response of getTaskResult for a task after its due time.
func (s *Service) Result(t Task) wire.TasksAnswer {
	if t.Failed {
		return tasksFail(wire.CodeUnsolvable)
	}
	return wire.TasksAnswer{
		Status: "ready", Solution: wire.Solved(t.Identity.Type, s.Token(t), t.namedValues(s.opts), s.opts.userAgent(t)),
		Cost: price, IP: "127.0.0.1",
		CreateTime: t.At.Unix(), EndTime: t.Due.Unix(), SolveCount: 1,
	}
}
